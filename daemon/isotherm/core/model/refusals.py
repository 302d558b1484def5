"""Why work was not done, or must not be: one word of a closed list for metrics, one sentence for a person."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """How work ended. Its values are a metric's label, and stand in the ledger: they stay as they are."""

    COMMITTED = "committed"

    # Nobody can say yet
    UNKNOWN = "unknown"
    NO_ANSWER = "no_answer"

    # The stream, a person or another daemon came first
    CANCELLED = "cancelled"
    CONFLICT = "conflict"
    FORMAT = "format"
    """The table's format version is another by now, or allows no such change."""
    GONE = "gone"
    HALTED = "halted"
    HOT = "hot"
    INTENT = "intent"
    """A writer said that it may write, and not where."""
    LOST = "lost"
    """A request to commit was sent, another head came, and the table's history does not show ours."""
    OWNER = "owner"
    """Another daemon of the group maintains the table by now."""
    PAUSED = "paused"
    POLICY = "policy"
    SCHEMA = "schema"
    STAGED = "staged"
    """A writer wants to publish what it has written on top of the head."""
    STALE = "stale"
    """What was planned is not to be done any more at the table as it is now."""
    STOPPED = "stopped"
    WINDOW = "window"
    """The window is over in which its writers left the partition alone."""
    TOPIC = "topic"
    """The control topic could not be read to its end."""

    # Something outside is to blame
    CATALOG = "catalog"
    CLOCK = "clock"
    CONTENTION = "contention"
    STORAGE = "storage"
    UNAVAILABLE = "unavailable"
    UPGRADED = "upgraded"
    """The code on this machine is another than the daemon's."""

    # The table, its files, or we are to blame
    AMBIGUOUS_FIELDS = "ambiguous_fields"
    CORRUPT_FILE = "corrupt_file"
    CRASHED = "crashed"
    DEADLINE = "deadline"
    DELETES_ELSEWHERE = "deletes_elsewhere"
    """A delete file names a data file of another partition."""
    ENCRYPTED = "encrypted"
    EQUALITY_DELETES = "equality_deletes"
    FILE_TWICE = "file_twice"
    """The table names one file more than once."""
    FORMAT_AVRO = "format_avro"
    FORMAT_ORC = "format_orc"
    FORMAT_PUFFIN = "format_puffin"
    GC_DISABLED = "gc_disabled"
    KILLED = "killed"
    LOCATION = "location"
    MISMATCH = "mismatch"
    """The rows that were written are not those that were read, or not as manifests would tell."""
    MISSING_FILE = "missing_file"
    NOTHING_TO_DO = "nothing_to_do"
    OTHER_HISTORY = "other_history"
    """Versions of a table's metadata lie in its folder that the catalog does not know, or another table's."""
    ORPHANS = "orphans"
    """More of a table's files look like orphans than its policy believes."""
    OUTPUT_SPEC = "output_spec"
    """Files stay in an older partition spec for now."""
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    """The catalog refused the request."""
    TWO_SPELLINGS = "two_spellings"
    """Deletes spell the path of a data file in another way than manifests do."""
    UNEXPECTED = "unexpected"
    UNSUPPORTED = "unsupported"

    # A person must look
    LOST_REFS = "lost_refs"
    TWO_ENTRIES = "two_entries"


MOST_SAID = 1000
"""Characters of a why: a file may choose what an error of its reader repeats, and a record of Kafka takes a megabyte."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not done."""

    reason: Reason
    why: str

    def __post_init__(self) -> None:
        if len(self.why) > MOST_SAID:
            object.__setattr__(self, "why", f"{self.why[:MOST_SAID]}…")

    def __str__(self) -> str:
        return f"{self.reason}: {self.why}"


class RefusalError(Exception):
    """Work that cannot, or must not, go on."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.refusal = Refusal(reason, why)
