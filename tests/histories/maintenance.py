"""What the maintenance of a table does: rewrites of data, deletes and manifests, and expiry. Each is a step (see
`happenings`).
"""

from histories.judges import Live
from histories.made_up import MadeUp
from isotherm.contract.summary import JOB_ID
from isotherm.core.model.files import FileKind
from isotherm.runtime.clock import now_ms

DELETES = (FileKind.POSITION_DELETES, FileKind.EQUALITY_DELETES, FileKind.DELETION_VECTORS)


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
