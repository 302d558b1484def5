"""What happens to the table itself: its schema, its spec, its format, its name. Each is a step (see `happenings`)."""

from histories.made_up import MadeUp


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
