"""What happens to the branches and tags of a table that Spark writes while a daemon maintains it."""

from histories.worked_table import WorkedTable


def pin(world: WorkedTable) -> str | None:
    """A tag or a branch on what is retained, some for a time alone; a branch may say what it keeps."""
    if not world.snapshots:
        return None
    kind, age = (
        world.chance.choice(("TAG", "BRANCH")),
        world.chance.choice(("", "RETAIN 2 HOURS", "RETAIN 3 DAYS")),
    )
    keeps = (
        world.chance.choice(("", "2 SNAPSHOTS", "1 DAYS", "3 SNAPSHOTS 2 DAYS")) if kind == "BRANCH" else ""
    )
    world.number += 1
    return world.sql(
        f"ALTER TABLE {world.spark_name} CREATE {kind} pin{world.number} "
        f"AS OF VERSION {world.chance.choice(world.snapshots)} {age} {keeps and f'WITH SNAPSHOT RETENTION {keeps}'}"
    )


def unpin(world: WorkedTable) -> str | None:
    """One of them is not needed any more."""
    refs = {name: ref for name, ref in world.seen.metadata.refs.items() if name != "main"}
    if not refs:
        return None
    name = world.chance.choice(sorted(refs))
    return world.sql(f"ALTER TABLE {world.spark_name} DROP {refs[name].snapshot_ref_type.upper()} {name}")


def write_branch(world: WorkedTable) -> str | None:
    """A branch, a new one or one that is there, gets a history of its own."""
    if not world.snapshots:
        return None
    there = sorted(
        name
        for name, ref in world.seen.metadata.refs.items()
        if ref.snapshot_ref_type == "branch" and name != "main"
    )
    name = world.chance.choice([*there, ""])
    if not name:
        world.number += 1
        name = f"side{world.number}"
        world.sql(f"ALTER TABLE {world.spark_name} CREATE BRANCH {name}")
    more = ", NULL" * (len(world.seen.schema().fields) - 4)
    for _ in range(2):
        world.sql(f"INSERT INTO {world.spark_name}.branch_{name} SELECT *{more} FROM {world.rows(2)}")
    return f"branch {name} is written twice"
