"""Expiry of snapshots, and the deletion of files that nothing reaches any more.

Mark, wait, sweep: which files will be unreachable is found by reading what the expiring snapshots reach and taking
away all that any other snapshot reaches; it is written down (`mark`) before the commit. After the commit they wait
for the grace of queries that still run; `delete` then looks at the table once more before each batch goes.

Which snapshots may go is the planner's decision; here it is checked once more against the metadata of the commit: no
ref may name one of them, and all must lie on `main` behind its head.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Literal

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)

from isotherm.manifest_reading import read_manifest, read_manifest_list
from isotherm.model import INGEST_PIPELINE, INGEST_TOKEN, Outcome, OutcomeKind
from isotherm.ports import Expired
from isotherm.storage import normalised, retried

ATTEMPTS = 5
"""A stream that commits every second loses us a few races; more means that something is wrong."""


class AssertNoRefNames(ValidatableTableRequirement):
    """None of these snapshots is named by a branch or tag: one may come between our look and the commit.

    PyIceberg checks it itself where it applies the commit (SQL, Glue, Hive catalogs); a REST catalog knows only the
    requirements of its own specification, and gets `assert-ref-snapshot-id` for the refs that we saw instead.
    """

    type: Literal["isotherm-assert-no-ref-names"] = "isotherm-assert-no-ref-names"
    snapshot_ids: list[int]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuse where a ref names one of them, or one is gone already."""
        if base_metadata is None:
            raise CommitFailedException("Requirement failed: current table metadata is missing")
        named = {ref.snapshot_id: name for name, ref in base_metadata.refs.items()}
        known = {snapshot.snapshot_id for snapshot in base_metadata.snapshots}
        for snapshot_id in self.snapshot_ids:
            if snapshot_id in named:
                raise CommitFailedException(
                    f"Requirement failed: ref {named[snapshot_id]} names {snapshot_id}"
                )
            if snapshot_id not in known:
                raise CommitFailedException(f"Requirement failed: snapshot {snapshot_id} is gone already")


def expire(
    catalog: Catalog, name: str, snapshots: Sequence[int], job_id: str, mark: Callable[[Sequence[str]], None]
) -> Expired:
    """Expire snapshots in one commit; the newest ingest tokens are kept as table properties by the same commit.

    Args:
        catalog: PyIceberg's catalog.
        name: the table.
        snapshots: what should go, as planned; those that are gone or must stay by now are left out.
        job_id: ours, for messages.
        mark: told every file that becomes unreachable, before the commit is sent.
    """
    trouble = ""
    for _ in range(ATTEMPTS):
        table = catalog.load_table(name)
        going = _still_going(table.metadata, snapshots)
        if not going:
            return Expired(
                Outcome(job_id, OutcomeKind.FAILED, "stale", "nothing of the plan may go any more")
            )
        files = unreachable(table, going)
        mark(files)
        try:
            catalog.commit_table(table, _requirements(catalog, table, going), _updates(table, going))
        except CommitFailedException as err:
            trouble = str(err)
            continue
        except (CommitStateUnknownException, OSError) as err:
            # A request whose answer was lost: look, an expiry cannot be told from another's, nor need it be.
            if _gone(catalog, name, going):
                return _done(job_id, going, files)
            return Expired(
                Outcome(job_id, OutcomeKind.UNKNOWN, "no_answer", f"the catalog did not answer: {err}"),
                tuple(files),
            )
        return _done(job_id, going, files)
    why = f"lost {ATTEMPTS} races against other commits, the last: {trouble}"
    return Expired(Outcome(job_id, OutcomeKind.FAILED, "conflict", why))


def _done(job_id: str, going: Sequence[int], files: Sequence[str]) -> Expired:
    why = f"{len(going)} snapshots expired, {len(files)} files have no reader any more"
    return Expired(Outcome(job_id, OutcomeKind.DONE, "committed", why), tuple(files))


def _gone(catalog: Catalog, name: str, going: Iterable[int]) -> bool:
    try:
        metadata = catalog.load_table(name).metadata
    except Exception:  # noqa: BLE001 (whatever keeps us from looking: we do not know)
        return False
    return not {snapshot.snapshot_id for snapshot in metadata.snapshots} & set(going)


def _still_going(metadata: TableMetadata, snapshots: Sequence[int]) -> list[int]:
    """Of the planned ones, those that lie on `main` behind its head and that no ref names."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    named = {ref.snapshot_id for ref in metadata.refs.values()}
    behind: set[int] = set()
    current = parents.get(metadata.current_snapshot_id or -1)
    while current is not None and current in parents:
        behind.add(current)
        current = parents[current]
    return [snapshot_id for snapshot_id in snapshots if snapshot_id in behind and snapshot_id not in named]


def unreachable(table: Table, going: Collection[int]) -> list[str]:
    """The files that only these snapshots reach: manifest lists, manifests, data and delete files, statistics."""
    metadata = table.metadata
    lists_going = {s.manifest_list for s in metadata.snapshots if s.snapshot_id in going}
    lists_staying = {s.manifest_list for s in metadata.snapshots if s.snapshot_id not in going}
    manifests_staying = _manifests(table, lists_staying)
    manifests_going = {
        path: manifest
        for path, manifest in _manifests(table, lists_going - lists_staying).items()
        if path not in manifests_staying
    }
    content = _content(table, manifests_going.values())
    if content:
        content -= _content(table, manifests_staying.values())
    statistics = {s.statistics_path for s in metadata.statistics if s.snapshot_id in going}
    statistics -= {s.statistics_path for s in metadata.statistics if s.snapshot_id not in going}
    return sorted({*(lists_going - lists_staying), *manifests_going, *content, *statistics})


def _manifests(table: Table, lists: Iterable[str]) -> dict[str, ManifestFile]:
    return {
        manifest.manifest_path: manifest for one in lists for manifest in read_manifest_list(table.io, one)
    }


def _content(table: Table, manifests: Iterable[ManifestFile]) -> set[str]:
    return {
        entry.data_file.file_path
        for manifest in manifests
        for entry in read_manifest(table.io, manifest)
        if entry.status != ManifestEntryStatus.DELETED
    }


def _requirements(catalog: Catalog, table: Table, going: list[int]) -> tuple[TableRequirement, ...]:
    from pyiceberg.catalog.rest import RestCatalog
    from pyiceberg.table.update import AssertRefSnapshotId

    uuid = AssertTableUUID(uuid=table.metadata.table_uuid)
    if isinstance(catalog, RestCatalog):
        refs = table.metadata.refs.items()
        seen = (AssertRefSnapshotId(ref=name, **{"snapshot-id": ref.snapshot_id}) for name, ref in refs)
        return (uuid, *seen)
    return (uuid, AssertNoRefNames(snapshot_ids=going))  # type: ignore[return-value]


def _updates(table: Table, going: list[int]) -> tuple[TableUpdate, ...]:
    tokens = newest_tokens(table.metadata)
    remove = RemoveSnapshotsUpdate(**{"snapshot-ids": going})
    if all(table.metadata.properties.get(name) == token for name, token in tokens.items()):
        return (remove,)
    return (SetPropertiesUpdate(updates=tokens), remove)


def newest_tokens(metadata: TableMetadata) -> dict[str, str]:
    """The newest offset vector of each ingest pipeline on `main`, as the table properties where ingest looks for it."""
    tokens: dict[str, str] = {}
    current = metadata.current_snapshot_id
    while current is not None and (snapshot := metadata.snapshot_by_id(current)) is not None:
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        if INGEST_TOKEN in summary:
            tokens.setdefault(f"ingest.{summary.get(INGEST_PIPELINE, '')}.source", summary[INGEST_TOKEN])
        current = snapshot.parent_snapshot_id
    return tokens


def delete(table: Table, paths: Sequence[str], expired: Collection[int]) -> tuple[list[str], list[str]]:
    """Delete files that an expiry left behind; gives those that are gone, and those that must stay.

    The table is looked at once more: where one of the expired snapshots is back (a restored catalog), everything
    stays, and a file outside of the table's own location stays always.
    """
    metadata = table.metadata
    if {snapshot.snapshot_id for snapshot in metadata.snapshots} & set(expired):
        return [], list(paths)
    homes = tuple(
        normalised(home).rstrip("/") + "/"
        for home in (
            metadata.location,
            metadata.properties.get("write.data.path"),
            metadata.properties.get("write.metadata.path"),
        )
        if home
    )
    gone, kept = [], []
    for path in paths:
        if not normalised(path).startswith(homes) or "/../" in path:
            kept.append(path)
            continue
        with suppress(FileNotFoundError):
            retried(lambda path=path: table.io.delete(path))  # type: ignore[misc]
        gone.append(path)
    return gone, kept
