"""What writers do to a table: files come, leave, and are deleted from. Each is a step (see `happenings`)."""

from histories.made_up import MadeUp
from isotherm.contract.summary import INGEST_TOKEN
from isotherm.core.model.files import FileKind


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
