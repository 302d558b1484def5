"""What can happen to a table: each a small step (`writes`, `maintenance`, `refs`, `evolution`), chosen by weight.

A step gives a line that says what it did, or None where there was nothing to do it to. What Iceberg refuses is
raised as `RefusedError` by the caller's guard and counts as a step in which nothing happened.
"""

from collections.abc import Callable

from histories.evolution import evolve_schema, evolve_spec, re_create, rename, upgrade
from histories.made_up import MadeUp
from histories.maintenance import (
    drop_deletes,
    expire_old,
    expire_some,
    rewrite_data,
    rewrite_deletes,
    rewrite_manifests,
)
from histories.refs import (
    append_to_branch,
    branch,
    cherry_pick,
    drop_branch,
    fast_forward,
    go_anywhere,
    replace_main,
    roll_back,
    stage,
    tag,
    vanish,
)
from histories.writes import (
    append,
    append_again,
    append_manifest,
    delete_everything,
    delete_files,
    global_deletes,
    overwrite,
    overwrite_partitions,
    row_delta,
    two_at_once,
)

Step = Callable[[MadeUp], str | None]

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
