"""DuckDB's macros for the texts that a stream's own declaration of its columns allows.

They are stricter than DuckDB's casts, which round decimals, and take `1_000`, `5.`, `2024-1-3` and names of time zones.
"""

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
# To 18 hours, as in Java. The largest in use are 14 and -12.
_ZONE = "(Z|[+-]((0[0-9]|1[0-7])(:?[0-5][0-9])?|18(:?00)?))"
_FAR_DAY = "([+]?[1-9][0-9]{4,}|-[0-9]{4,})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_NUMBER = "-?[0-9]+([.][0-9]+)?"
_EXPONENT = f"{_NUMBER}[eE][+-]?[0-9]+"
_TOKENS = r"""("(?:[^"\\]|\\.)*")|(-?[0-9][0-9.eE+-]*)"""

DECLARED_MACROS = (
    # Of a number or a time that is beyond all bounds: the last one on its side.
    """endless(x) AS CASE WHEN starts_with(x, '-') THEN -9223372036854775808
        WHEN x IS NOT NULL THEN 9223372036854775807 END""",
    f"""iso_day(x) AS CASE WHEN regexp_full_match(x, '{_DAY}') THEN TRY_CAST(x AS DATE) - DATE '1970-01-01'
        WHEN regexp_full_match(x, '{_FAR_DAY}|-?infinity') THEN endless(x) END""",
    f"""iso_local(x) AS CASE WHEN regexp_full_match(x, '{_DAY}([T ]{_TIME})?') THEN epoch_us(TRY_CAST(x AS TIMESTAMP))
        WHEN regexp_full_match(x, '{_FAR_DAY}([T ]{_TIME})?|-?infinity') THEN endless(x) END""",
    # `zoned` knows the infinities that Debezium writes; and the year 10000 may be 9999 in UTC.
    f"""iso_instant(x) AS CASE WHEN regexp_full_match(x, '{_DAY}([T ]{_TIME}{_ZONE}?)?') THEN zoned(x)
        WHEN regexp_full_match(x, '{_FAR_DAY}([T ]{_TIME}{_ZONE}?)?|-?infinity') THEN coalesce(zoned(x), endless(x)) END""",
    # What is finer than a microsecond is cut off, towards the past. A cast would round what has more than nine decimals.
    """epoch_micros(x, factor) AS coalesce(TRY(floor(
        (TRY_CAST(regexp_extract(x, '^-?[0-9]+([.][0-9]{1,9})?') AS DECIMAL(30,9))
            - CASE WHEN regexp_matches(x, '^-[0-9]+[.][0-9]{9}[0-9]*[1-9]') THEN 0.000000001 ELSE 0 END)
        * factor)::BIGINT), endless(x))""",
    # No digits are an infinity, and a cast takes `inf` and `1_000`.
    f"""floating(x, value) AS CASE WHEN regexp_full_match(x, '{_NUMBER}|{_EXPONENT}') THEN CASE WHEN isfinite(value) THEN value END
        WHEN x IN ('NaN', 'Infinity', '-Infinity') THEN value END""",
    # Digits, and a point; what has an exponent is rare, and written out by Python.
    f"""spelled(x) AS CASE WHEN regexp_full_match(x, '{_NUMBER}') THEN x
        WHEN regexp_full_match(x, '{_EXPONENT}') THEN without_exponent(x) END""",
    "with_decimals(x, most) AS CASE WHEN strlen(rtrim(split_part(x, '.', 2), '0')) <= most THEN x END",
    # A double tells fifteen digits for sure; the point is one letter more. Sixteen digits are a whole number, or have an
    # exponent, too. With an exponent of three it may be 0.
    "has_long_numbers(x) AS regexp_matches(x, '[0-9.]{17}|[0-9.]{16}[eE]|[:,[ \t\r\n]-?[0-9.]+[eE][+-]?[0-9]{3}')",
    # Strings are tokens, too, so no number within one is taken for a number; the control characters cannot be in JSON.
    f"""numbers_as_text(x) AS regexp_replace(regexp_replace(
        regexp_replace(x, '{_TOKENS}', '\\1' || chr(1) || '\\2' || chr(2), 'g'),
        chr(1) || chr(2), '', 'g'), '[' || chr(1) || chr(2) || ']', '"', 'g')""",
    "exactly(x) AS CASE WHEN has_long_numbers(x) THEN numbers_as_text(x) END",
)
"""Null where the text is not allowed."""
