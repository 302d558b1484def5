"""A check ends, whatever it runs into, and stops no other."""

import threading

import pytest

from isotherm.commands.doctor.checks import Check, Finding, Mark, made, unknown, well, wrong
from isotherm.runtime.strict_model import ConfigError
from isotherm.service.ports import Unavailable
from isotherm.store.database import StoreError

SHORT_S = 0.05


def raising(error):
    def ask():
        yield well("so far")
        raise error

    return ask


def test_findings_come_in_their_order():
    found = list(made(Check("it", lambda: iter([well("a"), wrong("b", "mend"), unknown("c")]))))

    assert [(one.mark, one.found, one.remedy) for one in found] == [
        (Mark.WELL, "a", ""),
        (Mark.WRONG, "b", "mend"),
        (Mark.UNKNOWN, "c", ""),
    ]
    assert {one.subject for one in found} == {"it"}
    assert not any(one.is_hanging for one in found)


def test_a_check_that_hangs_is_given_up_and_says_what_to_do():
    over = threading.Event()

    def ask():
        yield well("begun")
        over.wait()
        yield well("never told")

    found = list(made(Check("it", ask, "pull the plug", limit_s=SHORT_S)))
    over.set()

    assert [one.found for one in found] == ["begun", "given up: nothing came in 0 s"]
    assert (found[1].mark, found[1].remedy, found[1].is_hanging) == (Mark.WRONG, "pull the plug", True)


def test_one_that_goes_on_finding_is_not_given_up():
    def ask():
        for number in range(4):
            threading.Event().wait(SHORT_S / 2)
            yield well(str(number))

    assert [one.found for one in made(Check("it", ask, limit_s=SHORT_S * 1.5))] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("error", "told", "remedy"),
    [
        (Unavailable("the catalog is away"), "the catalog is away", "mend"),
        (ConfigError("kafka.properties: no"), "kafka.properties: no", ""),
        (StoreError("corrupt"), "corrupt", "mend"),
        (OSError(28, "No space"), "OSError: [Errno 28] No space", "mend"),
        (KeyError("x"), "KeyError: 'x'", "mend"),
    ],
)
def test_what_a_check_raises_is_what_it_has_found(error, told, remedy):
    found = list(made(Check("it", raising(error), "mend")))

    assert [one.found for one in found] == ["so far", told]
    assert (found[1].mark, found[1].remedy) == (Mark.WRONG, remedy)


def test_of_a_mistake_of_ours_a_report_is_asked_for():
    assert "report it" in list(made(Check("it", raising(KeyError("x")))))[1].remedy


def test_what_it_took_is_told():
    times = iter([10.0, 10.25, 12.25, 12.25])

    assert [
        one.took_ms
        for one in made(Check("it", lambda: iter([Finding(Mark.WELL, "a"), well("b")])), lambda: next(times))
    ] == [250, 2000]
