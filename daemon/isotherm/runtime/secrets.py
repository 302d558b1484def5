"""What nobody may read in a log, an answer or a complaint."""

import re

_USERS = re.compile(
    # Not a secret: the container in a location of Azure has the place of a user.
    r"(?P<kept>\b(?:abfss?|wasbs?)://[^\s/@:?#\"\\]+@)"
    # A user and a password, whatever is in it, and what is sent in a header.
    r"|(?<=//)[^\s/?#\"\\]+(?=@)"
    r"|(?<=Bearer )[^\s'\"\\]+|(?<=Basic )[^\s'\"\\]+"
)
_QUERIES = re.compile(
    # Of an address: Azure's tokens and addresses that were signed are in it. In other locations a `?` is a part of a
    # file's name.
    r"(?P<kept>\b(?:https?://|with url: )(?:(?!https?://)[^\s?'\"<>\\])*\?)[^\s'\"<>\\\x1b]+"
    r"|(?P<name>[?&;](?i:sig|x-amz-signature|x-amz-security-token|x-goog-signature|access_token|token)=)"
    r"[^\s&'\"<>\\\x1b]+"
)
"""Where clients repeat a password or a token. No match goes past a quotation mark or a backslash: a line of JSON stays one."""


def without_secrets(text: str) -> str:
    """Take out of a text what clients repeat of addresses and headers and nobody may read; the rest stays as it is."""
    text = _USERS.sub(lambda found: found["kept"] or "***", text)
    return _QUERIES.sub(lambda found: f"{found['kept'] or found['name']}***", text)
