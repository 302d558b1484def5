"""After all maintenance Spark goes on: an upsert, a delete, its own rewrites and its own expiry, each with the right rows.

What is right is worked out from the rows that there were, in Python.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from histories.worked_table import WorkedTable

Row = dict[str, Any]
KEYS = (3, 17, 99)
"""Some that may be there, and one that is not."""


def go_on(world: WorkedTable) -> list[str]:
    """What of Spark's work had another end than it should have."""
    name, wrong = world.spark_name, []

    def does(what: str, command: str, expected: Callable[[list[Row]], list[Row]]) -> None:
        before = rows(world)
        world.sql(command)
        after, wanted = _counted(rows(world)), _counted(expected(before))
        if after != wanted:
            wrong.append(f"{what}: lost {wanted - after}, came {after - wanted}")

    source = ", ".join(f"(CAST({key} AS BIGINT), {1000 + key})" for key in KEYS)
    does(
        "MERGE",
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES {source} AS v(id, n)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)",
        _merged,
    )
    does(
        "DELETE",
        f"DELETE FROM {name} WHERE id % 4 = 3",
        lambda rows: [one for one in rows if one["id"] % 4 != 3],
    )
    call = f"CALL {world.java.name}.system"
    does(
        "rewrite_data_files",
        f"{call}.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
        list,
    )
    does(
        "expire_snapshots",
        f"{call}.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)",
        list,
    )
    return wrong


def rows(world: WorkedTable) -> list[Row]:
    """All rows, as values."""
    return [one.asDict() for one in world.java.spark.sql(f"SELECT * FROM {world.spark_name}").collect()]


def _merged(before: list[Row]) -> list[Row]:
    updated = [{**one, "n": 1000 + one["id"]} if one["id"] in KEYS else one for one in before]
    new = set(KEYS) - {one["id"] for one in before}
    return updated + [{"id": key, "n": 1000 + key} for key in new]


def _counted(rows: list[Row]) -> Counter[str]:
    """Rows, without the columns of which they have no value."""
    return Counter(repr(sorted(item for item in one.items() if item[1] is not None)) for one in rows)
