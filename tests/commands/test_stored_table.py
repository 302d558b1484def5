"""What commands read beside a daemon at work is of one moment."""

import pytest

from isotherm.commands.stored_table import stored_table
from isotherm.service.ports import Unavailable
from isotherm.store import Fold
from support.lab import Lab, counted, settle


class Watched(Fold):
    """A fold under which something happens whenever its partitions are read."""

    def __init__(self, path, happenings):
        super().__init__(path, read_only=True)
        self.happenings = happenings

    def partitions(self, uuid):
        read = list(super().partitions(uuid))
        next(self.happenings, lambda: None)()
        return iter(read)


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)


def at_work(lab):
    table, service = lab.create(), lab.settled()

    def goes_on():
        lab.append(table, 1, 2)
        settle(service)

    goes_on()
    return service, goes_on


def test_a_table_and_its_partitions_are_of_one_head(lab):
    service, goes_on = at_work(lab)
    fold = Watched(lab.root / "state" / "fold.db", iter([goes_on, goes_on]))
    ((_, row),) = fold.tables().items()
    stored = stored_table(fold, row)

    assert stored.row.state.head == lab.catalog.load_table("shop.orders").metadata.current_snapshot_id
    assert {one.key: (dict(one.state.data), dict(one.state.deletes)) for one in stored.partitions} == counted(
        lab.scan()
    )
    service.stop()


def test_a_daemon_that_never_rests_is_told_of(lab):
    service, goes_on = at_work(lab)
    fold = Watched(lab.root / "state" / "fold.db", iter([goes_on] * 20))
    ((_, row),) = fold.tables().items()
    with pytest.raises(Unavailable, match="changes faster than it can be read"):
        stored_table(fold, row)
    service.stop()
