"""What happens to the columns of a table that Spark writes: nested ones come and get values, and names and types change."""

from histories.worked_table import WorkedTable


def nest(world: WorkedTable) -> str:
    """A nested column comes, and rows that were there get values in it."""
    world.number += 1
    name = f"nested_{world.number}"
    world.sql(f"ALTER TABLE {world.spark_name} ADD COLUMN {name} STRUCT<a: INT, b: ARRAY<STRING>>")
    value = f"named_struct('a', n, 'b', array(region, '{name}'))"
    return world.sql(
        f"UPDATE {world.spark_name} SET {name} = {value} WHERE id % 3 = {world.chance.randrange(3)}"
    )


def rename(world: WorkedTable) -> str | None:
    """A column, or a field of one, has another name or a wider type from now on, or one of its fields comes or goes."""
    more = [one.name for one in world.seen.schema().fields[4:]]
    nested = [name for name in more if name.startswith("nested_")]
    world.number += 1
    new, table = f"new_{world.number}", f"ALTER TABLE {world.spark_name}"
    if not nested:
        name = world.chance.choice(more) if more else ""
        return world.sql(f"{table} RENAME COLUMN {name} TO more_{world.number}") if name else None
    name = world.chance.choice(nested)
    fields = [one.name for one in world.seen.schema().find_field(name).field_type.fields]
    field = world.chance.choice(fields)
    what = world.chance.choice(("column", "field", "come", "go"))
    if what == "column":
        return world.sql(f"{table} RENAME COLUMN {name} TO nested_{world.number}")
    if what == "come" or len(fields) == 1:
        return world.sql(f"{table} ADD COLUMN {name}.{new} BIGINT")
    if what == "go":
        return world.sql(f"{table} DROP COLUMN {name}.{field}")
    return world.sql(f"{table} RENAME COLUMN {name}.{field} TO {new}")
