"""What of a configuration may be shown, and how everything else is kept out of every answer.

Of a client's properties only those are shown that are known to be harmless: whatever has another name may be a password.
Their values, and those of the environment and of PyIceberg's own file, are taken out of every text as well, because a
client repeats in its complaints what it was given.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from isotherm.runtime.config import IsothermConfig
from isotherm.runtime.secrets import without_secrets

HIDDEN = "***"
HARMLESS = frozenset(
    {
        *("type", "uri", "warehouse", "prefix", "init_catalog_tables", "snapshot-loading-mode"),
        *("s3.endpoint", "s3.region", "client.region", "glue.region", "glue.endpoint", "dynamodb.region"),
        *("s3.connect-timeout", "s3.request-timeout", "s3.force-virtual-addressing", "s3.path-style-access"),
        *("oauth2-server-uri", "rest.sigv4-enabled", "rest.signing-region", "rest.signing-name"),
        *("gcs.project-id", "adls.account-name", "adls.account-host", "hdfs.host", "hdfs.port"),
        *("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.mechanisms", "group.instance.id"),
        *("session.timeout.ms", "max.poll.interval.ms", "socket.timeout.ms", "client.id", "compression.type"),
        *("ssl.ca.location", "ssl.endpoint.identification.algorithm", "broker.address.family"),
    }
)
"""Properties of clients that are shown."""
_SECRET_NAME = re.compile(
    r"passw|secret|token|credential|key|jaas|auth|connection[._-]string|sas|pem", re.IGNORECASE
)
"""Names in the environment, and of properties whose values are taken out of texts however short they are."""
_OF_WHO = re.compile(r"(key|client|account)[._-](id|name)$|user(name)?$", re.IGNORECASE)
"""Names that say who asks. They are not shown, but too many texts have such a word in them to take it out of all."""
LEAST = 6
"""Characters of a value that is taken out of texts wherever it stands; shorter ones are words, where no name says more."""
LEAST_OF_SECRETS = 3


def shown_address(text: str) -> str:
    """An address without who asks and without its query, however odd a password in it is."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        # `user:password@host` has none; nor has a region, or the path of a file.
        return text if "@" not in text else f"{HIDDEN}@{_cut(text.rpartition('@')[2])}"
    user, at, place = rest.rpartition("@")
    return f"{scheme}://{HIDDEN + '@' if at and user else ''}{_cut(place)}"


def _cut(place: str) -> str:
    """Up to a query, a fragment, or parameters as Spark Connect has them."""
    kept = re.split(r"[?#;]", place, maxsplit=1)[0]
    return kept if kept == place else f"{kept}?{HIDDEN}"


def shown(config: IsothermConfig, *, is_said_only: bool = False) -> dict[str, Any]:
    """Every key of a configuration, or those that somebody said, nested as in the file, without a secret."""
    told: dict[str, Any] = config.model_dump(mode="json", exclude_unset=is_said_only)
    for client in (told["catalog"], told["kafka"]):
        client["properties"] = {
            name: shown_address(str(value)) if name in HARMLESS else HIDDEN
            for name, value in client.get("properties", {}).items()
        }
    plain: dict[str, Any] = _plain(told)
    return plain


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case str():
            return shown_address(value)
        case _:
            return value


def flat(told: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Each key with its place: `kafka.properties.bootstrap.servers`."""
    for name, value in told.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", str(value)


class Secrets:
    """What is taken out of every text."""

    def __init__(self, config: IsothermConfig) -> None:
        """Take note of those of a configuration, with the properties of its files, and of the environment."""
        self._values: list[str] = []
        self._note(_of_the_environment(os.environ))
        self.add(config.catalog.properties)
        self.add(config.kafka.properties)
        if config.executors.spark is not None:
            self._note(_of_address(config.executors.spark.remote))

    def add(self, properties: Mapping[str, Any]) -> None:
        """Take note of more: those that PyIceberg's own file has of the catalog."""
        self._note(_of_properties(properties))

    def _note(self, values: Iterable[str]) -> None:
        # The longest first: where one is a part of another, nothing of it is left.
        new = {spelled for one in values for spelled in (one, quote(one), quote(one, safe=""), unquote(one))}
        self._values = sorted({*self._values, *new}, key=lambda one: (-len(one), one))

    def without(self, text: str) -> str:
        """The text without any of them."""
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return without_secrets(text)

    def without_all(self, value: Any) -> Any:
        """A value as JSON has it, without any of them."""
        match value:
            case dict():
                return {self.without(str(name)): self.without_all(inner) for name, inner in value.items()}
            case list() | tuple():
                return [self.without_all(inner) for inner in value]
            case None | bool() | int() | float():
                return value
            case _:
                return self.without(str(value))


def _of_the_environment(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and not _is_place(value):
            yield from _long_enough([value], LEAST)
        elif "://" in value:
            yield from _of_address(value)


def _of_properties(properties: Mapping[str, Any]) -> Iterator[str]:
    for name, value in properties.items():
        text = str(value)
        if name in HARMLESS:
            yield from _of_address(text)
        elif name.endswith("credential"):  # OAuth's: who asks, and the secret
            yield from _long_enough([text, text.partition(":")[2]], LEAST_OF_SECRETS)
        elif _OF_WHO.search(name):
            continue
        elif _SECRET_NAME.search(name):
            # JAAS and PEM have lines; the client repeats one of them, perhaps.
            yield from _long_enough([text, *re.split(r"[\s:;\"'=,]+", text)], LEAST_OF_SECRETS)
        else:
            yield from _long_enough([text, *_of_address(text)], LEAST)


def _of_address(text: str) -> Iterator[str]:
    """Who asks, of an address, and what its query says."""
    rest = text.partition("://")[2] or text
    user, _, place = rest.rpartition("@")
    if user:
        yield from _long_enough([user, user.partition(":")[2]], LEAST_OF_SECRETS)
    for part in re.split(r"[?#;&]", place)[1:]:
        yield from _long_enough([part.partition("=")[2]], LEAST_OF_SECRETS)


def _long_enough(values: Iterable[str], least: int) -> Iterator[str]:
    for value in values:
        if len(value) >= least and value.lower() not in _WORDS:
            yield value


def _is_place(value: str) -> bool:
    """Whether it names a file that is there (SSL_CERT_FILE, SSH_AUTH_SOCK). A secret may begin with a slash, too."""
    return value.startswith("/") and Path(value).exists()


_WORDS = frozenset({"true", "false", "none", "null", "required", "username", "password", "secret", "token"})
"""Not secret, whatever they are the value of: without them the answer would have holes."""
