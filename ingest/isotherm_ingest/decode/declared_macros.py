"""DuckDB's macros for the texts that a stream's own declaration of its columns allows.

They are stricter than DuckDB's casts, which round decimals, and take `1_000`, `5.`, `2024-1-3` and names of time zones.
"""

_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = "([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
_ZONE = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_NUMBER = "-?[0-9]+([.][0-9]+)?"
_EXPONENT = f"{_NUMBER}[eE][+-]?[0-9]+"
_TOKENS = r"""("(?:[^"\\]|\\.)*")|(-?[0-9][0-9.eE+-]*)"""

DECLARED_MACROS = (
    f"iso_day(x) AS CASE WHEN regexp_full_match(x, '{_DAY}') THEN TRY_CAST(x AS DATE) - DATE '1970-01-01' END",
    f"""iso_local(x) AS epoch_us(CASE WHEN regexp_full_match(x, '{_DAY}([T ]{_TIME})?')
        THEN TRY_CAST(x AS TIMESTAMP) END)""",
    # Infinities, and years that have more than four digits, as Debezium writes them: `zoned` knows what they mean.
    f"""iso_instant(x) AS CASE
        WHEN regexp_full_match(x, '{_DAY}([T ]{_TIME}{_ZONE}?)?|([+-][0-9]{{4}}|[0-9]{{5}})[0-9]*-.*|-?infinity') THEN zoned(x) END""",
    # What is finer than a microsecond is cut off, towards the past. Beyond all bounds it is null, not an error.
    f"""epoch_micros(x, factor) AS CASE WHEN regexp_full_match(x, '{_NUMBER}|{_EXPONENT}')
        THEN TRY(floor(TRY_CAST(x AS DECIMAL(30,9)) * factor)::BIGINT) END""",
    # Digits, and a point; what has an exponent is rare, and written out by Python.
    f"""spelled(x) AS CASE WHEN regexp_full_match(x, '{_NUMBER}') THEN x
        WHEN regexp_full_match(x, '{_EXPONENT}') THEN without_exponent(x) END""",
    "with_decimals(x, most) AS CASE WHEN strlen(rtrim(split_part(x, '.', 2), '0')) <= most THEN x END",
    # A double tells fifteen digits for sure; the point is one letter more.
    "has_long_numbers(x) AS regexp_matches(x, '[0-9.]{17}')",
    # Strings are tokens, too, so no number within one is taken for a number; the control characters cannot be in JSON.
    f"""numbers_as_text(x) AS regexp_replace(regexp_replace(
        regexp_replace(x, '{_TOKENS}', '\\1' || chr(1) || '\\2' || chr(2), 'g'),
        chr(1) || chr(2), '', 'g'), '[' || chr(1) || chr(2) || ']', '"', 'g')""",
    "exactly(x) AS CASE WHEN has_long_numbers(x) THEN numbers_as_text(x) END",
)
"""Null where the text is not allowed."""
