"""How the messages of a topic are written. Behind this door everything is the same for every format.

A format is plain data, which travels to the workers. There it takes messages apart; the driver has it tell, of one message
of each kind, what those like it look like.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from isotherm_ingest.decode.debezium_schema import ChangeSchema

Identity = tuple[bytes | None, ...]
"""What tells the schemas of value and key apart from all others of a topic; the same in every worker."""
Apart = tuple[Identity | None, bytes, bytes | None]
"""The identity, or None where a message has no schema; what of its value is decoded, and of its key, where that is."""
Sample = tuple[str, str | None]
"""The value and the key of a message, as text; or what else `Format.schema` wants to know."""
Message = tuple[bytes, bytes | None, str | None]
"""Its value, its key, and its headers, as JSON (`workers.reading`)."""


class Format(Protocol):
    """One way to write messages."""

    def apart(self, value: bytes, key: bytes | None, headers: str | None) -> Apart:
        """Take a message apart."""

    def texts(
        self, identity: Identity, bodies: Sequence[bytes], keys: Sequence[bytes | None]
    ) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        """What is decoded of messages of one identity, as the JSON that the schema describes."""

    def sample(self, messages: Iterable[Message]) -> Sample | None:
        """One of these messages of one identity that says what they look like, or None where none does.

        The one that says most: from which table it comes, where any does.
        """

    def says_all(self, value: str) -> bool:
        """Whether no other message of its identity could say more than a sample with this value."""

    def is_bookkeeping(self, messages: Iterable[Message]) -> bool:
        """Whether messages of one identity are no changes, but what their source says of itself."""

    def schema(self, value: str, key: str | None) -> ChangeSchema:
        """What messages like a sample look like.

        Raises:
            SchemaError: nobody could read them.
        """
