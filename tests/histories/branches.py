"""What happens to the branches and tags of a table that Spark writes while a daemon maintains it."""

from histories.worked_table import WorkedTable


def pin(world: WorkedTable) -> str | None:
    """A tag or a branch on what is retained, some for a time alone."""
    if not world.snapshots:
        return None
    kind, age = (
        world.chance.choice(("TAG", "BRANCH")),
        world.chance.choice(("", "RETAIN 2 HOURS", "RETAIN 3 DAYS")),
    )
    world.number += 1
    return world.sql(
        f"ALTER TABLE {world.spark_name} CREATE {kind} pin{world.number} "
        f"AS OF VERSION {world.chance.choice(world.snapshots)} {age}"
    )


def unpin(world: WorkedTable) -> str | None:
    """One of them is not needed any more."""
    refs = {name: ref for name, ref in world.seen.metadata.refs.items() if name != "main"}
    if not refs:
        return None
    name = world.chance.choice(sorted(refs))
    return world.sql(f"ALTER TABLE {world.spark_name} DROP {refs[name].snapshot_ref_type.upper()} {name}")
