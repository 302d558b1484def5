"""The registry of schemas, as the driver asks it: once for each id, because an id never means another schema.

It speaks Confluent's API, which Apicurio has too (`/apis/ccompat/v7`). There ids are those of contents. Where a message says
a *global* id of Apicurio's, which another schema may have as its content's, it is asked for by Apicurio's own API. A registry that does not answer, or not as one does,
is away: what wanted the schema is tried again later, and nothing is sent to the dead letters. It may also not know an id
yet, as a replica that is behind. So only after a while such messages are dead letters.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import requests

from isotherm.clients.timeouts import Patience
from isotherm.runtime import clock
from isotherm_ingest.decode.kinds import SchemaError
from isotherm_ingest.stream_formats import RegistryConfig

UNKNOWN_FOR_S = 300.0
"""So long an id that the registry does not know is asked for again. Replicas are seconds behind; a person who restores a
registry, or finds that the address is another one's, needs minutes. Meanwhile the topic waits."""
FORGOTTEN_AFTER_S = 3_600.0
"""An id that nobody wants for so long is a new one when it is wanted again: then it may be one that was just given. Longer than
most windows, or it would be waited for in each of them."""
MAX_UNKNOWN = 10_000
"""Ids of which it is remembered since when they are unknown; garbage may have any."""
TIMEOUT_S = 5.0
"""Of silence. An answer as a whole has four times that (`Patience`), however it trickles in."""
SILENT_FOR_S = 15.0
"""So long nobody is asked after no answer came: the driver's one thread waits for it, and all topics with it."""
SLOW_AFTER_S, SLOW_FOR_S, SLOW_SHARE = 0.2, 20.0, 0.25
"""What answers take beyond the first is slow. After so many slow seconds nobody is asked, and this share of the time gives them
back: a hundred ids of a registry that answers in five seconds each would hold all topics for eight minutes, in each batch."""
MAX_BYTES = 8 * 1024 * 1024
"""Of an answer. Confluent's own limit for a schema is a megabyte."""
MAX_ID = 2**31 - 1
"""Confluent's registry gives no larger one, and answers one with a 404 that says nothing of schemas. Garbage has any."""
_NO_SUBJECT = {40401, 40402}
"""Its codes of a subject, or a version of one, that is not there."""
_UNKNOWN = 40403
"""Confluent's code of an unknown schema. Another 404 comes from somebody else, as a proxy, and says nothing of ids."""
_CONFLUENT_API, _OWN_API = "/apis/ccompat/", "/apis/registry/v2"
"""Of Apicurio. Its second version is there since 2.0, and beside the third one."""
_UNKNOWN_HERE = {"VersionNotFoundException", "ArtifactNotFoundException", "ContentNotFoundException"}
"""What Apicurio's own API calls a 404 of an id."""


class RegistryAwayError(RuntimeError):
    """No answer, or none that says anything of the schema."""


class TooSlowError(RegistryAwayError):
    """The registry answers so slowly that others would wait too long for what is asked of it."""


class NotKnownYetError(RegistryAwayError):
    """The registry answers, and does not know this id; others it may know."""


class StillUnknownError(SchemaError):
    """The registry has not known an id for so long that nobody waits for it; some day it may."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The newest version of a subject."""

    name: str
    number: int
    """The id of its schema."""
    version: int
    told: Mapping[str, Any]
    """As the registry says it."""

    def avro(self) -> str:
        """The text of its schema. Raises SchemaError: it is none that is read."""
        return _avro_of(self.number, self.told)


class Registry:
    """Schemas by id."""

    def __init__(
        self, config: RegistryConfig | None, monotonic_s: Callable[[], float] = clock.monotonic_s
    ) -> None:
        """Nothing is asked yet."""
        self._config = config
        self._monotonic_s = monotonic_s
        self._schemas: dict[int, str] = {}
        self._unknown_s: dict[int, tuple[float, float]] = {}
        """Of ids since when they are unknown, and when they were asked for last; those that were asked for last come last."""
        self._patience = Patience("the registry", TIMEOUT_S)
        self._silent_until_s = float("-inf")
        self._slow_s, self._slow_at_s = 0.0, monotonic_s()
        """How slow it was, with what time has given back until when."""

    def schema(self, number: int) -> str:
        """The text of an Avro schema; below zero is a global id of Apicurio's (`decode.avro`).

        Raises:
            RegistryAwayError: ask again later.
            SchemaError: there is none, for all that we know (`StillUnknownError`), or none that is read.
        """
        if number not in self._schemas:
            self._schemas[number] = self._asked(number)
            self._unknown_s.pop(number, None)
        return self._schemas[number]

    def _asked(self, number: int) -> str:
        if number > MAX_ID and self._config is not None and self._config.framing == "confluent":
            raise SchemaError(f"no registry gives a schema the id {number}")
        own_api = None if number >= 0 or self._config is None else _own_api(self._config.url)
        path = f"/schemas/ids/{abs(number)}" if own_api is None else f"/ids/globalIds/{-number}"
        status, body = self._answer((own_api or self._url) + path)
        told = _json(body)
        if status == requests.codes.not_found and (_is_of_registry(told) or abs(number) > MAX_ID):
            self._is_unknown(number)
        if own_api is not None and status == requests.codes.ok and not body.lstrip().startswith(b"<"):
            return _content(number, body, told)
        if (
            own_api is not None
            or status != requests.codes.ok
            or not isinstance(told, dict)
            or not isinstance(told.get("schema"), str)
        ):
            raise RegistryAwayError(f"the registry answers {status} for {_called(number)}, and no schema")
        return _avro_of(number, told)

    def subject(self, name: str) -> "Subject | None":
        """The newest version of a subject, or None where there is none. Raises RegistryAwayError."""
        status, told = self._told(f"/subjects/{quote(name, safe='')}/versions/latest")
        if status == requests.codes.not_found and _code_of(told) in _NO_SUBJECT:
            return None
        if (
            status != requests.codes.ok
            or not isinstance(told, dict)
            or not isinstance(told.get("schema"), str)
        ):
            raise RegistryAwayError(f"the registry answers {status} for subject {name}, and no schema")
        try:
            return Subject(name, int(told["id"]), int(told["version"]), told)
        except (KeyError, TypeError, ValueError, OverflowError) as err:
            raise RegistryAwayError(f"the registry says no id of subject {name}") from err

    def compatibility(self, name: str) -> str:
        """The compatibility level that holds for a subject; empty where the registry does not say. Raises RegistryAwayError."""
        status, told = self._told(f"/config/{quote(name, safe='')}?defaultToGlobal=true")
        level = told.get("compatibilityLevel") if isinstance(told, dict) else None
        return level[:40] if status == requests.codes.ok and isinstance(level, str) else ""

    def _told(self, path: str) -> tuple[int, Any]:
        """The status, and what the JSON of an answer says; None where it is none."""
        status, body = self._answer(self._url + path)
        return status, _json(body)

    def _is_unknown(self, number: int) -> None:
        """Raise what follows from that the registry does not know an id."""
        now_s = self._monotonic_s()
        since_s, asked_s = self._unknown_s.pop(number, (now_s, now_s))
        if now_s - asked_s >= FORGOTTEN_AFTER_S:
            since_s = now_s
        while len(self._unknown_s) >= MAX_UNKNOWN:
            del self._unknown_s[next(iter(self._unknown_s))]
        self._unknown_s[number] = since_s, now_s
        for_s = now_s - since_s
        if for_s < UNKNOWN_FOR_S:
            raise NotKnownYetError(
                f"the registry does not know {_called(number)}; its messages wait {UNKNOWN_FOR_S - for_s:.0f} s more for it"
            )
        raise StillUnknownError(f"the registry has not known {_called(number)} for {for_s:.0f} s")

    @property
    def _url(self) -> str:
        return "" if self._config is None else self._config.url.rstrip("/")

    def _answer(self, url: str) -> tuple[int, bytes]:
        config = self._config
        if config is None:
            raise RegistryAwayError("no `registry` is configured")
        if (left_s := self._silent_until_s - self._monotonic_s()) > 0:
            raise RegistryAwayError(
                f"the registry did not answer a moment ago; it is asked again in {left_s:.0f} s"
            )
        begun_s = self._monotonic_s()
        self._slow_s = max(self._slow_s - SLOW_SHARE * (begun_s - self._slow_at_s), 0.0)
        self._slow_at_s = begun_s
        if self._slow_s >= SLOW_FOR_S:
            raise TooSlowError(
                f"the registry answers slowly, for {self._slow_s:.0f} s now; the rest is asked for later"
            )
        try:
            return self._patience.within(lambda: _got(config, url))
        except OSError as err:  # those of requests, and of our patience
            self._silent_until_s = self._monotonic_s() + SILENT_FOR_S
            raise RegistryAwayError(f"no answer from the registry: {type(err).__name__}") from err
        finally:
            self._slow_s += max(self._monotonic_s() - begun_s - SLOW_AFTER_S, 0.0)


def _no_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """In place of one that requests would find in the user's ~/.netrc, which nobody has meant for a registry."""
    return request


def _own_api(url: str) -> str | None:
    """Where Apicurio's own API is, by the address of its Confluent API. None where that does not tell."""
    root, found, _ = url.partition(_CONFLUENT_API)
    return root + _OWN_API if found else None


def _avro_of(number: int, told: Mapping[str, Any]) -> str:
    """The text of an Avro schema that refers to no others. Raises SchemaError."""
    kind = told.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise SchemaError(f"{_called(number)} is no Avro, but {str(kind)[:20]}")
    if told.get("references"):
        raise SchemaError(f"{_called(number)} refers to others, which is not read")
    schema: str = told["schema"]
    return schema


def _code_of(told: Any) -> int | None:
    """Confluent's code of an error."""
    return told.get("error_code") if isinstance(told, dict) else None


def _called(number: int) -> str:
    return f"schema {number}" if number >= 0 else f"the schema with the global id {-number}"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _content(number: int, body: bytes, told: Any) -> str:
    """What Apicurio's own API answers: the schema itself, of whatever kind. Raises SchemaError: it is no Avro."""
    if not isinstance(told, (dict, list, str)):
        raise SchemaError(f"{_called(number)} is no Avro")
    return body.decode(errors="replace")


def _is_of_registry(told: Any) -> bool:
    """Whether a 404 says that there is no such schema. Another one says nothing of ids."""
    return isinstance(told, dict) and (
        told.get("error_code") == _UNKNOWN or told.get("name") in _UNKNOWN_HERE
    )


def _got(config: RegistryConfig, url: str) -> tuple[int, bytes]:
    with closing(
        requests.get(
            url,
            headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"},
            auth=config.login or _no_login,
            verify=True if config.ca_file is None else str(config.ca_file),
            timeout=TIMEOUT_S,
            allow_redirects=False,
            stream=True,
        )
    ) as answer:
        body = b""
        for piece in answer.iter_content(64 * 1024):
            body += piece
            if len(body) > MAX_BYTES:
                raise RegistryAwayError(f"the registry's answer to {url} is too long")
        return answer.status_code, body
