"""Whole numbers of any length, as people write them: the one thing that DuckDB's SQL cannot do for a value."""

from decimal import Decimal

MAX_BYTES = 65_536
"""More than PostgreSQL's longest number takes (147,455 digits); a longer one only costs time."""
MAX_SCALE = 20_000
"""PostgreSQL's largest is 16,383."""
MAX_EXPONENT = 400
"""Of a number that is to fit into 38 digits; a double's is 308 at most."""
MAX_PADDING, MAX_GROWTH = 131_072, 16
"""Letters by which all numbers of a message together may be longer than what it says of them: so many, or so many times
the message. A number of a byte may have `MAX_SCALE` decimals, so a list of 70 kB would be 200 MB of text."""


def plain_number(unscaled: bytes | None, scale: int | None) -> str | None:
    """The digits of a number in two's complement, with a decimal point before the last `scale` of them.

    Returns None where there is no number, or one beyond all bounds.
    """
    if unscaled is None or scale is None or not unscaled:
        return None
    if len(unscaled) > MAX_BYTES or abs(scale) > MAX_SCALE:
        return None
    number = int.from_bytes(unscaled, "big", signed=True)
    # Not str(number): Python refuses more than 4,300 digits there.
    digits = str(number) if len(unscaled) <= 16 else format(Decimal(number), "f")
    if scale == 0 or number == 0 > scale:
        return digits
    if scale < 0:
        return digits + "0" * -scale
    sign, digits = ("-", digits[1:]) if number < 0 else ("", digits)
    digits = digits.rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def without_exponent(text: str | None) -> str | None:
    """A number as JSON writes it, in digits and a decimal point; None where it has more of them than any decimal takes."""
    if text is None:
        return None
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_EXPONENT or len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT:
        return None
    return format(Decimal(text), "f")
