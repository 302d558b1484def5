"""What can happen to a table: each a small step, chosen by weight.

A step gives a line that says what it did, or None where there was nothing to do it to. What Iceberg refuses is
raised as `RefusedError` by the caller's guard and counts as a step in which nothing happened.
"""

from collections.abc import Callable

from histories.judges import Live
from histories.made_up import MadeUp
from isotherm.contract.summary import INGEST_TOKEN, JOB_ID
from isotherm.core.model.files import FileKind
from isotherm.runtime.clock import now_ms

Step = Callable[[MadeUp], str | None]
DELETES = (FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTORS)


# --- writes ----------------------------------------------------------------------------------------------------


def append(world: MadeUp, *, branch: str | None = None, staged: bool = False) -> str:
    """Some files into one or more partitions, in a manifest of their own or merged into others."""
    fast = world.chance.random() < 0.4
    operation = world.table.newFastAppend() if fast else world.table.newAppend()
    count = world.chance.choice((1, 1, 2, 3, 12))
    for _ in range(count):
        operation = operation.appendFile(world.data())
    if world.chance.random() < 0.2:
        operation = operation.set(INGEST_TOKEN, "{}")
    if staged:
        operation = operation.set("wap.id", f"wap-{world.number}")
    world.commit(operation, branch=branch, staged=staged)
    return f"{'fast ' if fast else ''}append of {count}"


def append_manifest(world: MadeUp) -> str | None:
    """A manifest that somebody else wrote: its entries inherit the snapshot id, or it is copied."""
    output = world.table.io().newOutputFile(f"{world.table.location()}/metadata/own-{world.number}.avro")
    writer = world.java.static("ManifestFiles.write")(world.version, world.table.spec(), output, None)
    for _ in range(3):
        writer.add(world.data())
    writer.close()
    operation = world.table.newFastAppend() if world.chance.random() < 0.5 else world.table.newAppend()
    world.commit(operation.appendManifest(writer.toManifestFile()))
    return "append of a manifest"


def append_again(world: MadeUp) -> str | None:
    """The same file once more: nobody forbids it, and it counts twice."""
    here = world.some(world.of_kind(FileKind.DATA), 1)
    if not here or world.chance.random() < 0.5:
        return None
    world.commit(world.table.newAppend().appendFile(world.files[here[0].path]))
    return "append of a file that is there"


def overwrite(world: MadeUp) -> str | None:
    """Copy-on-write: some files leave, others come."""
    gone = world.some(world.of_kind(FileKind.DATA), 4)
    if not gone:
        return None
    operation = world.removed(world.table.newOverwrite(), gone)
    for one in gone[: world.chance.randint(0, 2)]:
        operation = operation.addFile(world.data(like=one))
    if world.chance.random() < 0.3:
        operation = operation.addFile(world.data())
    world.commit(operation)
    return f"overwrite of {len(gone)}"


def overwrite_partitions(world: MadeUp) -> str:
    """A dynamic overwrite: the partitions of the new files hold nothing else afterwards."""
    operation = world.table.newReplacePartitions()
    for _ in range(world.chance.choice((1, 2))):
        operation = operation.addFile(world.data())
    world.commit(operation)
    return "dynamic overwrite"


def delete_files(world: MadeUp) -> str | None:
    """Whole files leave, named as files or by path."""
    gone = world.some(world.of_kind(FileKind.DATA), 3)
    if not gone:
        return None
    operation = world.table.newDelete()
    for one in gone:
        # Not as a string: py4j would find a method of that name that deletes a file from storage.
        path = world.java.static("StringBuilder", "java.lang")(one.path)
        operation = operation.deleteFile(path if world.chance.random() < 0.5 else world.files[one.path])
    world.commit(operation)
    return f"delete of {len(gone)} files"


def delete_everything(world: MadeUp) -> str:
    """By a filter that all rows match."""
    everything = world.java.static("expressions.Expressions.alwaysTrue")()
    world.commit(world.table.newDelete().deleteFromRowFilter(everything))
    return "delete of everything"


def row_delta(world: MadeUp) -> str | None:
    """Merge-on-read: deletes against what is there, perhaps with new rows; an older vector is replaced."""
    targets = world.some(world.of_kind(FileKind.DATA), 3)
    if not targets or world.version == 1:
        return None
    operation = world.table.newRowDelta().validateFromSnapshot(world.head)
    kinds = []
    shared = world.puffin() if world.chance.random() < 0.5 else None
    for place, one in enumerate(targets):
        if world.chance.random() < 0.3:
            operation = operation.addDeletes(world.deletes(one, equality=True))
            kinds.append("equality")
        elif world.version == 2:
            operation = operation.addDeletes(world.deletes(one))
            kinds.append("positions")
        elif sum(other.path == one.path for other in world.live) == 1:
            old = world.vectors.get(one.path)
            vector = world.vector(one, shared, offset=4 + 100 * place)
            if old is not None and any(old.location() == other.path for other in world.live):
                operation = operation.removeDeletes(old)
            operation = operation.addDeletes(vector)
            world.vectors[one.path] = vector
            kinds.append("vector")
    if not kinds:
        return None
    if world.chance.random() < 0.4:
        operation = operation.addRows(world.data())
        kinds.append("rows")
    world.commit(operation)
    return f"row delta: {', '.join(kinds)}"


def global_deletes(world: MadeUp) -> str | None:
    """Equality deletes of an unpartitioned spec apply to the whole table, and stand in the partition without fields."""
    plain = [
        one for one in world.of_kind(FileKind.DATA) if not world.seen.metadata.specs()[one.spec_id].fields
    ]
    if world.version == 1 or not plain:
        return None
    world.commit(world.table.newRowDelta().addDeletes(world.deletes(plain[0], equality=True)))
    return "row delta: global equality deletes"


def two_at_once(world: MadeUp) -> str:
    """A transaction: two snapshots, one change of the metadata."""
    transaction = world.table.newTransaction()
    transaction.newAppend().appendFile(world.data()).commit()
    gone = world.some(world.of_kind(FileKind.DATA), 1)
    if gone:
        world.removed(transaction.newDelete(), gone).commit()
    else:
        transaction.newFastAppend().appendFile(world.data()).commit()
    transaction.commitTransaction()
    return "transaction of two"


# --- maintenance -----------------------------------------------------------------------------------------------


def rewrite_data(world: MadeUp, *, ours: bool = False) -> str | None:
    """A compaction of one partition, with what deletes it may also drop."""
    here = _of_one_place(world, FileKind.DATA)
    if not here:
        return None
    rows = sum(one.rows for one in here)
    operation = world.removed(world.table.newRewrite(), here).addFile(world.data(like=here[0], rows=rows))
    dropped: list[Live] = []
    if world.chance.random() < 0.5:
        place = {(one.key, one.spec_id) for one in here}
        dropped = [
            one
            for one in world.of_kind(FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES)
            if (one.key, one.spec_id) in place
        ]
        operation = world.removed(operation, dropped)
    if world.version > 1 and world.chance.random() < 0.5:
        operation = operation.dataSequenceNumber(world.seen.metadata.last_sequence_number)
    if ours:
        operation = operation.set(JOB_ID, f"job-{world.number}")
    world.commit(operation.validateFromSnapshot(world.head))
    return f"rewrite of {len(here)} files and {len(dropped)} deletes"


def rewrite_deletes(world: MadeUp) -> str | None:
    """Position deletes are merged, or equality deletes become position deletes."""
    here = _of_one_place(world, FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES)
    if not here or world.version != 2:
        return None
    operation = world.removed(world.table.newRewrite(), here)
    if world.chance.random() < 0.7:
        operation = operation.addFile(world.deletes(here[0]), world.seen.metadata.last_sequence_number)
    world.commit(operation.validateFromSnapshot(world.head))
    return f"rewrite of {len(here)} deletes"


def drop_deletes(world: MadeUp) -> str | None:
    """Deletes that apply to nothing any more leave by themselves."""
    here = world.some(world.of_kind(*DELETES), 3)
    if not here:
        return None
    world.commit(world.removed(world.table.newRowDelta(), here, "removeDeletes"))
    return f"removal of {len(here)} deletes"


def _of_one_place(world: MadeUp, *kinds: FileKind) -> list[Live]:
    files = world.of_kind(*kinds)
    if not files:
        return []
    first = world.chance.choice(files)
    # A file that stands there twice would leave twice.
    once = {one.path: one for one in files if (one.key, one.spec_id) == (first.key, first.spec_id)}
    return world.some(list(once.values()), 6)


def rewrite_manifests(world: MadeUp) -> str | None:
    """All into one, or one for each file; no file comes or goes."""
    if world.head is None:
        return None
    apart = world.chance.random() < 0.3
    if apart:
        by = world.java.static("Function.identity", "java.util.function")()
    else:
        by = world.java.static("Functions.constant", "com.google.common.base")("all")
    world.commit(world.table.rewriteManifests().clusterBy(by))
    return "rewrite of manifests"


# --- history ---------------------------------------------------------------------------------------------------


def expire_old(world: MadeUp) -> str | None:
    """All but the last few, with their files."""
    if world.head is None:
        return None
    keep = world.chance.choice((1, 2, 5, 10))
    operation = world.table.expireSnapshots().expireOlderThan(now_ms() + 60_000)
    operation.retainLast(keep).executeDeleteWith(world.java.inline).planWith(world.java.inline).commit()
    return f"expiry of all but {keep}"


def expire_some(world: MadeUp) -> str | None:
    """Any snapshots, also from the middle."""
    old = [one for one in world.snapshots if one != world.head]
    if not old:
        return None
    operation = world.table.expireSnapshots().cleanExpiredFiles(world.chance.random() < 0.5)
    for one in world.chance.sample(old, min(len(old), world.chance.randint(1, 3))):
        operation = operation.expireSnapshotId(one)
    operation.executeDeleteWith(world.java.inline).planWith(world.java.inline).commit()
    return "expiry of some"


def roll_back(world: MadeUp) -> str | None:
    """To an ancestor."""
    if len(world.ancestors) < 2:
        return None
    steps = world.chance.choice((1, 1, 2, 3, 8))
    target = world.ancestors[min(steps, len(world.ancestors) - 1)]
    world.table.manageSnapshots().rollbackTo(target).commit()
    return f"rollback by {steps}"


def go_anywhere(world: MadeUp) -> str | None:
    """To any snapshot that is there: back, forward again, or to another line."""
    if not world.snapshots:
        return None
    world.table.manageSnapshots().setCurrentSnapshot(world.chance.choice(world.snapshots)).commit()
    return "another snapshot is current"


def vanish(world: MadeUp) -> str | None:
    """The catalog takes a compaction out of the history for a writer whose commit it would have failed."""
    base = world.head
    if base is None or rewrite_data(world, ours=True) is None:
        return None
    world.table.manageSnapshots().setCurrentSnapshot(base).commit()
    operation = world.table.newFastAppend().appendFile(world.data())
    world.commit(operation)
    return "a compaction, taken back for an append"


def stage(world: MadeUp) -> str:
    """Write, audit, publish: a commit that no ref names."""
    return f"staged {append(world, staged=True)}"


def cherry_pick(world: MadeUp) -> str | None:
    """A snapshot of another line becomes the head's child, or the head."""
    others = [one for one in world.snapshots if one not in set(world.ancestors)]
    if not others:
        return None
    world.table.manageSnapshots().cherrypick(world.chance.choice(others)).commit()
    return "cherry-pick"


def branch(world: MadeUp) -> str | None:
    """A branch, at any snapshot."""
    if not world.snapshots:
        return None
    name = world.chance.choice(("left", "right"))
    world.table.manageSnapshots().createBranch(name, world.chance.choice(world.snapshots)).commit()
    return f"branch {name}"


def append_to_branch(world: MadeUp) -> str | None:
    """A commit that is not on main."""
    name = _branch_of(world)
    return None if name is None else f"{append(world, branch=name)} to {name}"


def fast_forward(world: MadeUp) -> str | None:
    """Main takes what a branch has."""
    name = _branch_of(world)
    if name is None:
        return None
    world.table.manageSnapshots().fastForwardBranch("main", name).commit()
    return f"fast-forward to {name}"


def replace_main(world: MadeUp) -> str | None:
    """Main becomes what a branch is, ancestor or not."""
    name = _branch_of(world)
    if name is None:
        return None
    world.table.manageSnapshots().replaceBranch("main", name).commit()
    return f"main replaced by {name}"


def drop_branch(world: MadeUp) -> str | None:
    """A branch goes."""
    name = _branch_of(world)
    if name is None:
        return None
    world.table.manageSnapshots().removeBranch(name).commit()
    return f"branch {name} dropped"


def _branch_of(world: MadeUp) -> str | None:
    names = sorted(name for name in world.seen.metadata.refs if name in {"left", "right"})
    return world.chance.choice(names) if names else None


def tag(world: MadeUp) -> str | None:
    """A tag keeps a snapshot from expiry."""
    if world.head is None:
        return None
    world.table.manageSnapshots().createTag(
        f"tag-{world.number}", world.chance.choice(world.snapshots)
    ).commit()
    return "tag"


# --- the table itself ------------------------------------------------------------------------------------------


def evolve_schema(world: MadeUp) -> str:
    """Columns come, are renamed, widened, dropped."""
    update = world.table.updateSchema()
    types = world.java.static("types.Types")
    match world.chance.choice(("add", "rename", "widen", "drop")):
        case "add":
            update.addColumn(f"more_{world.number}", types.StringType.get()).commit()
            world.number += 1
            return "column added"
        case "rename":
            column = world.seen.schema().find_field(3).name
            update.renameColumn(column, f"region_{world.number}").commit()
            world.number += 1
            return "column renamed"
        case "widen":
            update.updateColumn("n", types.LongType.get()).updateColumn(
                "price", types.DecimalType.of(12, 2)
            ).commit()
            return "columns widened"
        case _:
            update.deleteColumn(world.chance.choice(("day", "ok"))).commit()
            return "column dropped"


TERMS = (
    ("hour", "at"),
    ("day", "at"),
    ("month", "at"),
    ("year", "at"),
    ("identity", "region"),
    ("identity", "n"),
    ("identity", "day"),
    ("identity", "ok"),
    ("bucket[4]", "id"),
    ("bucket[3]", "id"),
    ("truncate[1]", "region"),
    ("truncate[2]", "n"),
)


def evolve_spec(world: MadeUp) -> str | None:
    """Fields come, go (in version 1 they stay as void), come back, are renamed, change their transform."""
    update = world.table.updateSpec()
    fields = [one for one in world.seen.spec().fields if str(one.transform) != "void"]
    choice = world.chance.choice(("add", "add", "remove", "rename", "change"))
    if choice == "add" or not fields:
        transform, column = world.chance.choice(TERMS)
        update.addField(world.java.term(transform, _column(world, column))).commit()
        return f"spec: + {transform}({column})"
    one = world.chance.choice(fields)
    match choice:
        case "remove":
            update.removeField(one.name).commit()
            return f"spec: - {one.name}"
        case "rename":
            update.renameField(one.name, f"field_{world.number}").commit()
            world.number += 1
            return f"spec: {one.name} renamed"
        case _:
            transform, column = world.chance.choice(TERMS)
            update.removeField(one.name).addField(world.java.term(transform, _column(world, column))).commit()
            return f"spec: {one.name} becomes {transform}({column})"


def _column(world: MadeUp, name: str) -> str:
    """The column's name now."""
    return str(world.seen.schema().find_field(3).name) if name == "region" else name


def upgrade(world: MadeUp) -> str | None:
    """To the next format version."""
    if world.version == 3:
        return None
    world.table.updateProperties().set("format-version", str(world.version + 1)).commit()
    return f"upgrade to v{world.version + 1}"


def re_create(world: MadeUp) -> str:
    """Dropped, and made again under the same name."""
    drop(world)
    return f"dropped and created again: {world.create()}"


def rename(world: MadeUp) -> str:
    """The same table under another name."""
    new = f"{world.name.partition('.')[0]}.t{world.generation}_{world.number}"
    world.number += 1
    world.java.catalog.renameTable(world.java.identifier(world.name), world.java.identifier(new))
    world.name = new
    world.table = world.java.catalog.loadTable(world.java.identifier(new))
    return f"renamed to {new}"


def drop(world: MadeUp) -> None:
    """The table goes, with what its metadata names. (The table of another generation has other file names.)"""
    world.java.catalog.dropTable(world.java.identifier(world.name), True)
    world.files.clear()
    world.vectors.clear()


PLAIN: dict[Step, int] = {
    append: 30,
    overwrite: 8,
    row_delta: 12,
    rewrite_data: 8,
    rewrite_deletes: 3,
    rewrite_manifests: 4,
    delete_files: 5,
    overwrite_partitions: 3,
    two_at_once: 2,
}
"""What every stream and its maintenance do."""

BACK_AND_FORTH: dict[Step, int] = {
    **PLAIN,
    roll_back: 4,
    go_anywhere: 3,
    vanish: 4,
    stage: 4,
    cherry_pick: 5,
    branch: 2,
    append_to_branch: 5,
    fast_forward: 4,
    replace_main: 2,
    evolve_schema: 2,
    evolve_spec: 4,
    upgrade: 2,
}
"""What a daemon can follow by undoing and applying, for nothing that it may need has expired.

Without `append_manifest`: Iceberg leaves the bytes of such files out of the summary's `total-files-size`, and a scan
has to say, once for a table, that the writer counts wrongly.
"""

EXPIRING: dict[Step, int] = {**PLAIN, expire_old: 8, evolve_spec: 4}
"""What a daemon that looks often enough can follow though old snapshots expire."""

ALL: dict[Step, int] = {
    **PLAIN,
    append_manifest: 2,
    append_again: 1,
    delete_everything: 1,
    global_deletes: 2,
    drop_deletes: 3,
    expire_old: 4,
    expire_some: 4,
    roll_back: 4,
    go_anywhere: 3,
    vanish: 4,
    stage: 4,
    cherry_pick: 5,
    branch: 4,
    append_to_branch: 5,
    fast_forward: 3,
    replace_main: 2,
    drop_branch: 1,
    tag: 2,
    evolve_schema: 3,
    evolve_spec: 6,
    upgrade: 2,
    re_create: 1,
    rename: 1,
}
"""Everything, by weight."""
