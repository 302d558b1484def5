"""Whatever Spark does to a table that the daemon maintains: each snapshot that stays has its rows, and what must stay does.

`make test` plays a few short histories, `make soak` three hundred. A failure prints its seed and all that happened;
`--seeds N` with `-m soak` plays that seed again.
"""

import sys
from collections import Counter

import pytest

from histories.at_work import play

pytestmark = pytest.mark.spark

SHORT, SHORT_STEPS = (12, 13), 3
STEPS = 4
"""So often the daemon works between Spark's steps, and three times at the end."""
ENOUGH = 150
"""After so many seeds, each kind of work must have been done."""
KINDS = {
    "compact, small files",
    "compact, deletes applied",
    "compact, deletes merged",
    "compact, equality deletes converted",
    "compact, small files beside writers",
    "rewrite_manifests",
    "expire",
    "trim_metadata",
    "remove_orphans",
    "refs dropped",
    "metadata trimmed",
    "schemas removed",
    "orphans removed",
    "files deleted",
    "race",
    "hit_a_job",
    "upsert",
    "load_and_upsert",
    "churn",
    "bulk",
    "global_deletes",
    "keep_place",
    "write_branch",
    "nest",
    "rename",
    "statistics",
}
FREQUENT = {
    "compact, small files",
    "rewrite_manifests",
    "expire",
    "trim_metadata",
    "remove_orphans",
    "files deleted",
}
"""What is done in a few histories already."""


def test_the_rows_of_each_snapshot_stay_what_they_were(worked, tmp_path):
    java, properties = worked

    histories = [play(java, tmp_path / f"{seed}", properties, seed, SHORT_STEPS) for seed in SHORT]

    assert all(one.judged for one in histories)
    assert not FREQUENT - set(sum((one.happened for one in histories), Counter()))  # a sum has no zeros


@pytest.mark.soak
def test_soak_of_a_daemon_at_work(worked, tmp_path, seeds, capsys):
    java, properties = worked
    played, failed = seeds("1..300"), {}
    happened, ends, judged, refused = Counter(), Counter(), 0, 0
    for seed in played:
        try:
            history = play(java, tmp_path / f"{seed}", properties, seed, STEPS)
        except AssertionError as broken:
            failed[seed] = str(broken)
            with capsys.disabled():
                sys.stdout.write(f"\n{broken}\n")
            continue
        happened += history.happened
        ends += history.ends
        judged += history.judged
        refused += history.refused
        with capsys.disabled():
            sys.stdout.write(f"\rseed {seed}: judged {judged} times, {len(failed)} failed")
    tally = [f"{count} times: {name}" for name, count in (happened + ends).most_common()]
    with capsys.disabled():
        sys.stdout.write("\n".join(["", *tally, f"{refused} steps were refused", ""]))

    assert not failed, f"seeds {sorted(failed)}"
    if len(played) >= ENOUGH:
        assert not KINDS - set(+happened)
