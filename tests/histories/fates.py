"""What becomes of the events of a table on their way: they come, or come late, twice, out of order, never, or forged.

The writers' side: events are made from the table's own history, as an outbox makes them. Forgeries say what somebody
who can write to the topic could say; none of them may lead the daemon astray, or stop it.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyiceberg.table import Table

from isotherm.contract.events import CommitEvent, encode
from support.lab import event_of
from support.memory_topics import Topic

COUNTS = ("added_files", "removed_files", "added_rows", "removed_rows")


def forgeries(chance: random.Random, event: CommitEvent, table: Table) -> dict[str, dict[str, object]]:
    """What each forgery says in place of the truth, by name."""
    home, spec_ids = table.metadata.location, sorted(table.metadata.specs())
    someone = chance.choice(table.metadata.snapshots)
    parent = None if event.parent_id is None else table.snapshot_by_id(event.parent_id)
    grandparent = None if parent is None else parent.parent_snapshot_id

    def manifests(**changes: object) -> dict[str, object]:
        return {"added_manifests": tuple(one.model_copy(update=changes) for one in event.added_manifests)}

    return {
        "another parent": {"parent_id": someone.snapshot_id},
        "another parent, no totals": {"parent_id": someone.snapshot_id, "summary": {}},
        "its grandparent as parent, no totals": {"parent_id": grandparent, "summary": {}},
        "a parent that never was": {"parent_id": 17},
        "a snapshot that never was": {
            "snapshot_id": chance.getrandbits(60),
            "sequence_number": event.sequence_number + 5,
        },
        "another snapshot's id": {"snapshot_id": someone.snapshot_id},
        "no manifests": {"added_manifests": ()},
        "others' manifests": {"added_manifests": event_of(table, someone).added_manifests},
        "a manifest that is not there": manifests(path=f"{home}/metadata/nothing.avro"),
        "a file outside the table": manifests(path="/etc/hostname"),
        "a way out of the table": manifests(path=f"{home}/metadata/../../../etc/hostname"),
        "no manifest, but a file of the table": manifests(path=table.metadata_location),
        "another spec": manifests(spec_id=chance.choice(spec_ids)),
        "another spec, no totals": {**manifests(spec_id=chance.choice(spec_ids)), "summary": {}},
        "another content": manifests(content="deletes"),
        "no counts": manifests(added_files=0, deleted_files=0),
        "large counts": manifests(added_files=10**9),
        "another length": manifests(length=3),
        "every manifest twice": {"added_manifests": event.added_manifests * 2},
        "every manifest twice, no totals": {"added_manifests": event.added_manifests * 2, "summary": {}},
        "an incomplete list": {"added_manifests_complete": False},
        "another operation": {"operation": "replace"},
        "another origin": {"origin": chance.choice(("ingest", "maintenance", "foreign"))},
        "other totals": {
            "summary": {"total-data-files": "7", "total-records": "-1", "total-files-size": "x"}
        },
        "no totals": {"summary": {}},
        "a high sequence number": {"sequence_number": 10**9},
        "the time of the beginning": {"timestamp_ms": 0},
        "the time of the end": {"timestamp_ms": 2**62},
        "a far boundary": {"valid_through_ms": 10**15},
        "a boundary at the end": {"valid_through_ms": 2**63 - 1},
        "ids that are no longs": {"snapshot_id": 2**70},
        "numbers that are no longs": {"sequence_number": 2**70},
        "partitions that are none": {
            "added_manifests_complete": False,
            "partitions": [{"partition": "rubbish", **dict.fromkeys(COUNTS, 1)}],
            "partitions_complete": True,
            "open_window": {"from_ms": -(2**63), "partitions": ["rubbish", '{"1000":[]}', ""]},
        },
        "a staged commit on main": {"ref": "main"},
        "another table's uuid": {"table_uuid": "00000000-0000-0000-0000-000000000000"},
        "another table's name": {"table": "nobody.nothing"},
    }


def forged(event: CommitEvent, changes: Mapping[str, object]) -> bytes:
    """The message; what the event says need not be anything that we could say."""
    message = json.loads(encode(event)[1])
    message["data"] = event.model_copy(update=changes).model_dump(mode="json", warnings=False)
    return json.dumps(message).encode()


RUBBISH = (None, b"", b"{", b"[]", b"\xff\x00", b'{"specversion": "1.0"}', b"[" * 100_000, b"x" * 1_000_001)


ANY = {"comes": 12, "late": 4, "twice": 2, "never": 4, "forged": 3, "forged first": 3}
LOSSY = {"comes": 4, "late": 3, "twice": 1, "never": 3}
HONEST = {"comes": 1}
SILENT = {"never": 1}


@dataclass
class Post:
    """The way from a table's writers to the topic."""

    chance: random.Random
    topic: Topic
    fates: Mapping[str, int] = field(default_factory=lambda: ANY)
    """What may become of an event, by weight."""
    late: list[CommitEvent] = field(default_factory=list)
    forged: set[str] = field(default_factory=set)
    not_forged: set[str] = field(default_factory=set)
    """The forgeries that were tried, and those that could have been."""
    announced: set[int] = field(default_factory=set)
    """Snapshots whose event was made."""

    def carry(self, table: Table) -> list[str]:
        """Make the events of what is new in a table, and let chance have them; gives what became of them."""
        fates = []
        for event in self._new(table):
            fate = self.chance.choices(list(self.fates), list(self.fates.values()))[0]
            fates.append(self._meets(fate, event, table))
        if self.late and self.chance.random() < 0.4:
            self.chance.shuffle(self.late)
            fates.append(f"{len(self.late)} late ones")
            for event in self.late:
                self._send(event)
            self.late.clear()
        if "forged" in self.fates and self.chance.random() < 0.05:
            self.topic.messages.append(self.chance.choice(RUBBISH))
        return fates

    def _meets(self, fate: str, event: CommitEvent, table: Table) -> str:
        if fate == "late":
            self.late.append(event)
        if fate in {"comes", "twice"}:
            self._send(event)
        if fate == "twice":
            self._send(event)
        if fate.startswith("forged"):
            possible = forgeries(self.chance, event, table)
            what, changes = self.chance.choice(list(possible.items()))
            self.forged.add(what)
            self.not_forged |= set(possible) - self.forged
            self.topic.messages.append(forged(event, changes))
            fate = f"{fate}: {what}"
            if "first" in fate:
                self._send(event)
        return fate

    def _new(self, table: Table) -> list[CommitEvent]:
        """Events of the snapshots that were not announced yet, in the order of the table's history."""
        on_main = {one.snapshot_id for one in _ancestors(table)}
        new = [one for one in table.metadata.snapshots if one.snapshot_id not in self.announced]
        self.announced |= {one.snapshot_id for one in new}
        events = [event_of(table, one) for one in sorted(new, key=lambda one: one.timestamp_ms)]
        return [
            one if one.snapshot_id in on_main else one.model_copy(update={"ref": "elsewhere"})
            for one in events
        ]

    def _send(self, event: CommitEvent) -> None:
        message = encode(event)[1]
        self.topic.messages.append(message)


def _ancestors(table: Table) -> list:
    found, by_id = [], {one.snapshot_id: one for one in table.metadata.snapshots}
    current = table.current_snapshot()
    while current is not None:
        found.append(current)
        current = by_id.get(current.parent_snapshot_id)
    return found
