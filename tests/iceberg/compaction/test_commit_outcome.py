"""What is known of a commit when its answer is lost: a look at the table says it, now or later."""

from collections.abc import Callable
from typing import Any

import pytest
import requests.exceptions
from pyiceberg.exceptions import CommitFailedException, ForbiddenError, NoSuchTableError
from pyiceberg.table import CommitTableResponse

from isotherm.core.model.jobs import OutcomeKind
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.compaction import commit_outcome
from isotherm.iceberg.compaction.one_commit import SENDS
from isotherm.service.ports import TooLong
from support.faults import FaultyCatalog
from support.rewriting import commit
from support.two_partitions import NAME, append, assert_done, assert_failed, contents, old, ready, settled

SCATTERED = {"write.object-storage.enabled": "true"}
PATHS = "write.object-storage.partitioned-paths"


@pytest.fixture
def catalog(two_partitions: Any) -> Any:
    return two_partitions


def failing(error: Exception, lands: Callable[[int], bool]) -> tuple[list[int], Callable[..., Any]]:
    """A catalog whose answers are `error`; the request number n takes effect where `lands(n)`."""
    sent: list[int] = []

    def hook(real: Any, *arguments: Any) -> Any:
        sent.append(len(sent) + 1)
        if lands(sent[-1]):
            real(*arguments)
        raise error

    return sent, hook


@pytest.mark.parametrize(
    "error",
    [
        ConnectionError("cut"),
        CommitFailedException("409"),
        ValueError("garbage"),
        KeyError("?"),
        ForbiddenError("the second copy"),
    ],
)
def test_an_answer_that_is_lost_after_the_commit_landed(catalog: Any, error: Exception) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    sent, hook = failing(error, lands=lambda number: number == 1)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert sent == [1]
    assert_done(catalog, outcome, before)


def test_a_request_that_is_lost_is_sent_again_and_counts_once(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    sent, hook = failing(ConnectionError("cut"), lands=lambda number: number == 2)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert sent == [1, 2]
    assert_done(catalog, outcome, before)


def test_a_request_that_lands_while_it_is_sent_again_counts_once(catalog: Any) -> None:
    """The first copy was under way; the second meets the head that the first one made."""
    job, rewrite = ready(catalog)
    before = contents(catalog)
    held: list[tuple[Any, ...]] = []

    def hook(real: Any, *arguments: Any) -> Any:
        if not held:
            held.append(arguments)
            raise ConnectionError("cut")
        real(*held[0])
        return real(*arguments)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert_done(catalog, outcome, before)


def test_a_request_whose_end_is_not_known_leaves_everything(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    held: list[tuple[Any, ...]] = []

    def hook(_: Any, *arguments: Any) -> Any:
        held.append(arguments)
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert len(held) == SENDS
    assert (OutcomeKind.UNKNOWN, head) == (outcome.kind, outcome.asserted_head_id)
    assert settled(catalog, job, outcome.asserted_head_id) is None
    # And it lands after all: every file that it names is there.
    before = contents(catalog)
    catalog.commit_table(*held[0])
    found = settled(catalog, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


def test_a_request_whose_end_is_not_known_can_no_longer_land_once_the_head_moved(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    held: list[tuple[Any, ...]] = []

    def hook(_: Any, *arguments: Any) -> Any:
        held.append(arguments)
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)
    append(catalog.load_table(NAME), 2)

    found = settled(catalog, job, outcome.asserted_head_id)
    assert found is not None
    assert (found.kind, found.reason) == (OutcomeKind.FAILED, "lost")
    with pytest.raises(CommitFailedException):
        catalog.commit_table(*held[0])


def test_without_a_way_to_look_the_end_is_unknown(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    away: list[bool] = []

    def load(real: Any, name: str) -> Any:
        if away:
            raise ConnectionError("the catalog is away")
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        away.append(True)
        raise ConnectionError("cut")

    weak = FaultyCatalog(catalog, hook, load)
    outcome = commit(weak, job, rewrite)

    assert OutcomeKind.UNKNOWN is outcome.kind
    assert settled(weak, job, outcome.asserted_head_id) is None
    away.clear()
    found = settled(weak, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


@pytest.mark.parametrize(
    "error",
    [ConnectionError("cut"), CommitFailedException("lost"), ForbiddenError("no")],
    ids=["cut", "lost", "refused"],
)
@pytest.mark.parametrize("looks", [1, 3, 1000])
def test_a_replica_that_lags_does_not_make_a_landed_commit_a_failed_one(
    catalog: Any, error: Exception, looks: int
) -> None:
    """It shows an older head, which is no sign that the table has gone on without us."""
    old = catalog.load_table(NAME)
    append(catalog.load_table(NAME), 2)
    job, rewrite = ready(catalog)
    before = contents(catalog)
    left: list[int] = []

    def load(real: Any, name: str) -> Any:
        if left and left[0] > 0:
            left[0] -= 1
            return old
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        answer = real(*arguments)
        if left:
            return answer
        left.append(looks)
        raise error

    lagging = FaultyCatalog(catalog, hook, load)
    outcome = commit(lagging, job, rewrite)
    if looks < 10:
        assert_done(catalog, outcome, before)
        return
    assert OutcomeKind.UNKNOWN is outcome.kind
    assert settled(lagging, job, outcome.asserted_head_id) is None
    # After a day it is believed.
    late = commit_outcome.settled(
        IcebergCatalog(lagging).load, [NAME], job, outcome.asserted_head_id, may_land=False
    )
    assert late is not None
    left[0] = 0
    found = settled(lagging, job, outcome.asserted_head_id)
    assert found is not None
    assert_done(catalog, found, before)


@pytest.mark.parametrize("scattered", [{}, SCATTERED, {**SCATTERED, PATHS: "false"}], ids=str)
def test_a_commit_whose_snapshot_was_expired_before_anyone_looked(
    catalog: Any, scattered: dict[str, str]
) -> None:
    """Its files are told by their names, which begin with a hash where files are scattered without folders."""
    with catalog.load_table(NAME).transaction() as change:
        change.set_properties(scattered)
    job, rewrite = ready(catalog)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        append(catalog.load_table(NAME), 2)
        table = catalog.load_table(NAME)
        table.maintenance.expire_snapshots().by_ids(old(table)).commit()
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert OutcomeKind.DONE is outcome.kind
    found = settled(catalog, job)
    assert found is not None
    assert OutcomeKind.DONE is found.kind
    contents(catalog)


def test_a_catalog_that_forbids_is_believed(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id
    sent, hook = failing(ForbiddenError("no"), lands=lambda _: False)

    outcome = commit(FaultyCatalog(catalog, hook), job, rewrite)

    assert (sent, outcome.was_sent) == ([1], True)
    assert_failed(catalog, outcome, "refused", job, head)


def test_a_request_of_which_nothing_is_heard_for_a_day_has_failed_though_its_table_rests(
    catalog: Any,
) -> None:
    """Else nothing would ever end it, nor delete what was written. What it named is not deleted at once."""
    job, rewrite = ready(catalog)
    _, hook = failing(ConnectionError("cut"), lands=lambda _: False)
    head_id = commit(FaultyCatalog(catalog, hook), job, rewrite).asserted_head_id
    load = IcebergCatalog(catalog).load

    assert commit_outcome.settled(load, [NAME], job, head_id, may_land=True) is None
    late = commit_outcome.settled(load, [NAME], job, head_id, may_land=False)
    assert late is not None
    assert (late.kind, late.reason, late.was_sent) == (OutcomeKind.FAILED, "no_answer", True)


def test_done_is_what_the_answer_shows(catalog: Any) -> None:
    """A front that redirects a POST gives back what a GET gives: the table as it was."""
    job, rewrite = ready(catalog)
    head = catalog.load_table(NAME).metadata.current_snapshot_id

    def pretends(*_: Any) -> Any:
        table = catalog.load_table(NAME)
        return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)

    outcome = commit(FaultyCatalog(catalog, pretends), job, rewrite)

    assert OutcomeKind.UNKNOWN is outcome.kind
    assert outcome.asserted_head_id == head
    assert head == catalog.load_table(NAME).metadata.current_snapshot_id


def test_committing_twice_changes_nothing(catalog: Any) -> None:
    job, rewrite = ready(catalog)
    before = contents(catalog)
    first = commit(catalog, job, rewrite)

    second = commit(catalog, job, rewrite)

    assert (first.kind, first.snapshot_id) == (second.kind, second.snapshot_id)
    assert_done(catalog, second, before)


def test_not_found_after_a_request_is_no_answer(catalog: Any) -> None:
    """A proxy that restarts answers so once; the next look shows what came of it."""
    job, rewrite = ready(catalog)
    before, away = contents(catalog), [False]

    def load(real: Any, name: str) -> Any:
        if away == [True]:
            away.clear()
            raise NoSuchTableError("default backend - 404")
        return real(name)

    def hook(real: Any, *arguments: Any) -> Any:
        real(*arguments)
        away[:] = [True]
        raise ConnectionError("cut")

    outcome = commit(FaultyCatalog(catalog, hook, load), job, rewrite)

    assert away == []
    assert_done(catalog, outcome, before)


def test_a_catalog_that_did_not_answer_is_not_asked_again_for_the_fate_of_a_job(catalog: Any) -> None:
    job, _ = ready(catalog)
    asked: list[str] = []

    class Silent:
        def load_table(self, name: str) -> Any:
            asked.append(name)
            raise requests.exceptions.ReadTimeout("read timed out")

        def list_namespaces(self) -> Any:
            raise requests.exceptions.ReadTimeout("read timed out")

    cautious = IcebergCatalog(Silent())  # type: ignore[arg-type]
    for _ in range(3):
        assert commit_outcome.settled(cautious.load, ["shop.renamed", NAME], job, None) is None
    assert asked == ["shop.renamed"]


def test_the_look_for_the_fate_of_a_job_ends_between_two_manifests_where_it_takes_too_long(
    catalog: Any,
) -> None:
    """It is made in the loop, and whoever wrote the table decides how much there is to read."""
    job, _ = ready(catalog)
    load, looks = IcebergCatalog(catalog).load, list[int]()

    def go_on() -> None:
        looks.append(len(looks))
        if len(looks) > 2:
            raise TooLong("there is so much")

    with pytest.raises(TooLong):
        commit_outcome.settled(load, [NAME], job, None, go_on=go_on)
    assert looks == [0, 1, 2]


def test_another_table_under_the_name_says_nothing_of_a_job(catalog: Any) -> None:
    job, _ = ready(catalog)
    table = catalog.load_table(NAME)
    catalog.drop_table(NAME)
    catalog.create_table(NAME, table.schema(), partition_spec=table.spec())

    assert settled(catalog, job) is None
