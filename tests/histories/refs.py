"""What happens to branches, tags and the head of `main`. Each is a step (see `happenings`)."""

from histories.made_up import MadeUp
from histories.maintenance import rewrite_data
from histories.writes import append


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
