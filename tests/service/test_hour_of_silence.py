"""One thing outside says nothing for an hour: the loop lives through it, so nobody restarts it, and it goes on by itself."""

import pytest
from requests.exceptions import ReadTimeout

from isotherm.core import observations as seen
from isotherm.core.model.jobs import OutcomeKind
from isotherm.service.ports import Unavailable
from support.lab import EXPIRING, Lab, of, started, wait_for_children

TABLES = 60
DUE = (0, 1, 2, 3, 17, 42)
HOUR_S = 3600.0
READ_TIME_OUT = ReadTimeout("Read timed out.")
NETWORK = OSError(
    "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 28, Timeout was reached"
)
AWAY = Unavailable("the broker did not answer")


def catalog(lab, _service):
    names = ("load_table", "commit_table", "list_tables", "list_namespaces")
    return [(lab.catalog, name, READ_TIME_OUT) for name in names]


def store(lab, _service):
    """The catalog answers, but what it names cannot be read."""
    return [(lab.catalog, name, NETWORK) for name in ("load_table", "commit_table")]


def broker(_lab, service):
    events, holds, readers = service.events, service.hold_topic, service.reader_topic
    answers = [(events, "drain", None), (events, "check_in", str(AWAY)), (events, "publish", AWAY)]
    return [*answers, (holds, "read", None), (holds, "write", AWAY), (readers, "read", None)]


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path, policy=EXPIRING)
    loop = lab.config.loop.model_copy(update={"plan_every_s": 10.0, "poll_tables_every_s": 60.0})
    lab.config = lab.config.model_copy(update={"loop": loop})
    for number in range(TABLES):
        lab.append(lab.create(f"shop{number % 4}.t{number:02}"), 1, announce=False)
    return lab


def turn(lab, service, until, for_s):
    """Turn the loop until something is so, or its time is over."""
    until_s = lab.monotonic_s() + for_s
    while lab.monotonic_s() < until_s and not until():
        service.step(0)
        if len(service.compactions) or len(service.expiries):
            wait_for_children(service)
        lab.ahead_ms += 5000


def fall_silent(lab, service, questions, time_out_s):
    """From now on each question costs a whole time-out. Returns what a probe at each one's end found, and an end to it.

    At that moment the loop has stood still for as long as it ever does.
    """
    lived = []

    def asked(said):
        def ask(*_, **__):
            lab.ahead_ms += int(1000 * time_out_s)
            lived.append(service.health.is_alive(lab.monotonic_s()))
            if isinstance(said, Exception):
                raise said
            return said

        return ask

    for owner, name, said in questions:
        setattr(owner, name, asked(said))

    def speak_again():
        for owner, name, _ in questions:
            delattr(owner, name)

    return lived, speak_again


def compacted(lab):
    return {one.table.name for one in of(lab, seen.JobEnded) if one.outcome is OutcomeKind.DONE}


@pytest.mark.parametrize(
    ("thing", "time_out_s", "hangs"),
    [(catalog, 30, 20), (catalog, 120, 10), (store, 60, 10), (broker, 5, 100)],
    ids=["catalog", "catalog, patient", "store", "broker"],
)
def test_the_loop_lives_through_an_hour_of_silence_and_then_goes_on(lab, thing, time_out_s, hangs):
    """A patient catalog is one with the longest time-out that may be configured, or whose answers trickle in."""
    service = started(lab)
    turn(lab, service, lambda: len(service.fold.names()) == TABLES, 600)
    for number in DUE:
        table = lab.catalog.load_table(f"shop{number % 4}.t{number:02}")
        for hour in (1, 1, 1, 9, 9):
            lab.append(table, hour)
    turn(lab, service, lambda: of(lab, seen.JobStarted), 60)
    assert of(lab, seen.JobStarted)

    lived, speak_again = fall_silent(lab, service, thing(lab, service), time_out_s)
    turn(lab, service, lambda: False, HOUR_S)
    assert len(lived) >= hangs
    assert all(lived)
    assert compacted(lab) == set()
    speak_again()
    turn(lab, service, lambda: False, 900)
    assert compacted(lab) == {f"shop{number % 4}.t{number:02}" for number in DUE}
    service.stop()
