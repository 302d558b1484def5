"""What a table is believed to have, over every history of commits, rollbacks and expiries, is what it has."""

from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.sorting import SortOrder

from isotherm.contract.summary import INGEST_PIPELINE, INGEST_TOKEN
from isotherm.iceberg.kept_tokens import newest_tokens
from isotherm_ingest.tables.lake import TableNow
from isotherm_ingest.tables.offset_vector import Source, encode
from support.examples import examples


class History:
    """A table of which main has some commits of ingest, each of one row."""

    def __init__(self):
        made = new_table_metadata(Schema(), UNPARTITIONED_PARTITION_SPEC, SortOrder(), "file:///t")
        self.metadata, self.has, self.number = made, {None: 0}, 0

    def change(self, head, snapshots, **properties):
        refs = {}
        if head is not None:
            refs["main"] = SnapshotRef(snapshot_id=head, snapshot_ref_type=SnapshotRefType.BRANCH)
        self.metadata = self.metadata.model_copy(
            update={
                "snapshots": snapshots,
                "current_snapshot_id": head,
                "refs": refs,
                "properties": {**self.metadata.properties, **properties},
            }
        )

    @property
    def head(self):
        return self.metadata.current_snapshot_id

    @property
    def main(self):
        return [one.snapshot_id for one in TableNow(SimpleNamespace(metadata=self.metadata)).ancestry()]

    def commit(self, *, ours):
        self.number += 1
        # Ids say nothing of the order.
        made = self.number * 7919 % 10007
        self.has[made] = self.has[self.head] + ours
        said = {}
        if ours:
            vector = {"t": {0: self.has[made]}}
            said = {INGEST_PIPELINE: "p", INGEST_TOKEN: encode(Source(vector))}
        new = Snapshot(
            snapshot_id=made, parent_snapshot_id=self.head, sequence_number=self.number,
            timestamp_ms=self.number, manifest_list="x", summary=Summary(operation=Operation.APPEND, **said),
        )  # fmt: skip
        self.change(made, [*self.metadata.snapshots, new])

    def roll_back(self, back):
        main = self.main
        if len(main) > 1:
            self.change(main[1 + back % (len(main) - 1)], self.metadata.snapshots)

    def expire(self, left, *, by_us, strays):
        """The oldest of main go; with `strays` all that is not on main goes too."""
        main = self.main
        going = set(main[1 + left % max(len(main), 1) :])
        staying = [
            one
            for one in self.metadata.snapshots
            if one.snapshot_id not in going and (one.snapshot_id in main or not strays)
        ]
        tokens = newest_tokens(self.metadata) if by_us else {}
        self.change(self.head, staying, **tokens)

    def token(self):
        return TableNow(SimpleNamespace(metadata=self.metadata)).token("p")


COMMITS = st.builds(lambda ours: ("commit", {"ours": ours}), st.booleans())
ROLLBACKS = st.builds(lambda back: ("roll_back", {"back": back}), st.integers(0, 9))


def expiries(by_us):
    return st.builds(
        lambda left, by_us, strays: ("expire", {"left": left, "by_us": by_us, "strays": strays}),
        st.sampled_from([0, 0, 1, 4]), by_us, st.booleans(),
    )  # fmt: skip


@examples(500)
@given(st.lists(COMMITS | COMMITS | ROLLBACKS | expiries(st.booleans()), min_size=5, max_size=25))
@example(
    [
        ("commit", {"ours": True}),
        ("expire", {"left": 0, "by_us": True, "strays": False}),
        ("commit", {"ours": True}),
        ("commit", {"ours": False}),
        ("expire", {"left": 0, "by_us": False, "strays": False}),
    ]
)
def test_what_a_table_is_known_to_have_it_has(steps):
    history = History()
    for name, how in steps:
        getattr(history, name)(**how)
        token = history.token()
        if token is not None and token.is_known:
            assert token.source.vector.get("t", {}).get(0, 0) == history.has[history.head]


@examples(500)
@given(st.lists(COMMITS | COMMITS | expiries(st.just(True)), min_size=5, max_size=25))
def test_where_the_daemon_alone_expires_and_nobody_rolls_back_it_is_always_known(steps):
    history = History()
    for name, how in steps:
        getattr(history, name)(**how)
        token = history.token()
        assert (token is None) == (history.has[history.head] == 0)
        assert token is None or token.is_known


@examples(500)
@given(st.lists(COMMITS | ROLLBACKS | expiries(st.just(True)), min_size=5, max_size=25))
@example(
    [
        ("commit", {"ours": True}),
        ("commit", {"ours": False}),
        ("commit", {"ours": True}),
        ("expire", {"left": 1, "by_us": True, "strays": False}),
        ("roll_back", {"back": 0}),
        ("commit", {"ours": False}),
        ("expire", {"left": 0, "by_us": True, "strays": True}),
    ]
)
def test_where_the_daemon_alone_expires_a_rollback_is_not_forgotten(steps):
    """Somebody who had rows finds no table that says nothing at all, as one does that never had any."""
    history = History()
    for name, how in steps:
        getattr(history, name)(**how)
        if history.token() is None:
            assert history.has[history.head] == 0
