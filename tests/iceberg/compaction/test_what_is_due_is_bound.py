"""What the planner calls due, by what it counts, the binder finds in the files: no job is begun in vain, and none for ever.

States are those of a full scan of real tables without a JVM: appends, position deletes and equality deletes by chance, and jobs
between them.
"""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotherm.core.model.jobs import OutcomeKind
from isotherm.core.model.refusals import Refusal
from isotherm.core.planner import debt as of_debt
from isotherm.core.planner.debt import debt
from isotherm.core.policy.policy import Compact
from isotherm.iceberg.manifests.live import LiveEntry, live_files
from support.deleted_rows import delete_ids, delete_row
from support.examples import examples
from support.lab import Lab
from support.rewriting import commit, rewritten, try_to_bind

POLICY = Compact(min_files=3, max_position_deletes=3, max_equality_deletes=2, max_delete_ratio=0.4)
NAME = "shop.orders"
JOBS = 4
"""As many as a partition may need, one after another."""


class Chance:
    """A table, and what happens to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice, self.lab = random.Random(seed), Lab(folder)
        self.table = self.lab.create()
        self.lab.append(self.table, 1, announce=False)

    def step(self) -> None:
        if not self._data():
            self.append()
        self.dice.choice([self.append, self.append, self.delete_row, self.delete_ids])()

    def append(self) -> None:
        self.lab.append(self.table, self.dice.choice([1, 2]), rows=self.dice.choice([2, 9]), announce=False)

    def delete_row(self) -> None:
        file = self.dice.choice(self._data())
        says_of = self.dice.random() < 0.5
        position = self.dice.randrange(2)
        delete_row(self.lab, self.table, file.path, position, file.partition, announce=False, says_of=says_of)

    def delete_ids(self) -> None:
        ids = self.dice.sample(range(self.lab.rows + 3), self.dice.choice([1, 3]))
        delete_ids(self.lab, self.table, ids, self.dice.choice(self._data()).partition, announce=False)

    def _data(self) -> list[LiveEntry]:
        self.table.refresh()
        live = live_files(self.table.metadata, self.table.io, self.table.current_snapshot())
        return [one for one in live if one.kind == "data"]


def jobs_in_vain(happened: Chance, at_most_bytes: int | None) -> list[str]:
    """Do what is due, partition after partition; gives what was due and was not there, or stayed due."""
    found = []
    for key in list(happened.lab.scan()):
        for _ in range(JOBS):
            state = happened.lab.scan().get(key)
            if state is None or (owed := debt(state, POLICY)).score < 1 or not owed.has_gain:
                break
            take = owed.take(1.0, at_most_bytes)
            job = try_to_bind(happened.table.refresh(), key, take=take)
            if isinstance(job, Refusal):
                found.append(f"{key} {owed.why}: {take}: {job}")
                break
            rewrite = rewritten(happened.table, job)
            assert commit(happened.lab.catalog, job, rewrite).kind is OutcomeKind.DONE
        else:
            found.append(f"{key} is due for ever: {owed.why}")
    return found


@pytest.mark.parametrize("light_bytes", [1, of_debt.MERGED_FROM_BYTES])
@examples(12)
@given(seed=st.integers(0, 2**32), steps=st.integers(2, 9))
def test_what_is_due_is_bound_and_is_due_no_more(light_bytes: int, seed: int, steps: int) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_debt, "MERGED_FROM_BYTES", light_bytes)
        happened = Chance(Path(folder), seed)
        for _ in range(steps):
            happened.step()

            assert jobs_in_vain(happened, None) == []
