"""The address of a SQL catalog's database, as the JVM's drivers take it.

The operator says it once, as SQLAlchemy has it. What its query says of TLS and of time-outs must hold in the JVM as well,
or rows of the catalog go over a connection that nobody has checked. So each parameter is translated, or refused in words
before anything begins. Values mean the same where nothing else is said.
"""

from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_POSTGRESQL = {
    "application_name": "ApplicationName",
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "gssencmode": "gssEncMode",
    "keepalives": "tcpKeepAlive",
    "krbsrvname": "kerberosServerName",
    "options": "options",
    "password": "password",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslnegotiation": "sslNegotiation",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "target_session_attrs": "targetServerType",
    "user": "user",
}
"""libpq's names, and those of PostgreSQL's JDBC driver."""
_VALUES = {
    "keepalives": {"1": "true", "0": "false"},
    "target_session_attrs": {
        "any": "any",
        "read-write": "primary",
        "primary": "primary",
        "read-only": "secondary",
        "standby": "secondary",
        "prefer-standby": "preferSecondary",
    },
}
"""Values that the two have other words for."""


def jdbc_properties(uri: str) -> dict[str, str]:
    """Properties of Iceberg's JDBC catalog: `uri`, and what is handed to the driver.

    Raises:
        ValueError: it is no address, or its query has what the driver does not know. The message repeats no value.
    """
    if uri.startswith("sqlite:///file:"):  # SQLite's own kind of address: both take its query as it is
        return {"uri": f"jdbc:sqlite:{uri.removeprefix('sqlite:///')}"}
    if uri.startswith("sqlite:///"):
        path, _, query = uri.removeprefix("sqlite:///").partition("?")
        return {"uri": f"jdbc:sqlite:{path}", **_of_sqlite(query)}
    parts = urlsplit(uri)
    host = parts.hostname or ""
    kind = parts.scheme.partition("+")[0]
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise ValueError(
            "`uri` has a port that is none: is a ? or a # of its password written as %3F, %23?"
        ) from None
    derived = {"uri": f"jdbc:{kind}://{host}{port}{parts.path}"}
    if parts.username:
        derived["jdbc.user"] = unquote(parts.username)
    if parts.password:
        derived["jdbc.password"] = unquote(parts.password)
    return derived | _of_server(kind, parts)


def _of_server(kind: str, parts: SplitResult) -> dict[str, str]:
    known = _POSTGRESQL if kind == "postgresql" else {}
    found = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known or value not in _VALUES.get(name, {value}):
            # A password with a question mark would be repeated.
            told = "something" if "@" in parts.query else f"`{name}`"
            raise ValueError(
                f"`uri` says {told} in its query that cannot be said to Spark's JDBC driver: write it in `catalog.spark` "
                "as that has it (`uri`, and `jdbc.…`)"
            )
        found[f"jdbc.{known[name]}"] = _VALUES.get(name, {}).get(value, value)
    return found


def _of_sqlite(query: str) -> dict[str, str]:
    """How long a locked database is waited for; what is Python's own says nothing to the JVM."""
    said = dict(parse_qsl(query, keep_blank_values=True))
    said.pop("check_same_thread", None)
    try:
        found = (
            {"jdbc.busy_timeout": str(round(float(said.pop("timeout")) * 1000))} if "timeout" in said else {}
        )
    except ValueError:
        raise ValueError("`uri` has a `timeout` that is no number of seconds") from None
    if said:
        raise ValueError(
            f"`uri` says `{next(iter(said))}` in its query that cannot be said to Spark's JDBC driver"
        )
    return found
