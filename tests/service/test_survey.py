"""What is known of all the catalog's tables before a file of one of them goes."""

from collections import deque
from dataclasses import replace

import pytest
from pyiceberg.exceptions import ServerError, TooManyRequestsError, UnauthorizedError
from requests import HTTPError, Response

from isotherm.core.deletion import Cause, Mark
from isotherm.core.model.holds import Hold, HoldKind
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.core.observations import TrySoon
from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.iceberg.identify_tables import SILENT_AT_ONCE, TRIES, Look
from isotherm.service.barrier import Barrier
from isotherm.service.ports import Lies, NotAsked, Refused, StoreAway, TableMissing, Unavailable, Unreadable
from isotherm.service.survey.survey import NAMES_AT_ONCE, PATIENCE_S, PAUSE_S, TWICE_S, Survey
from isotherm.service.survey.table_search import AGAIN_AFTER_S
from isotherm.service.survey.unanswered_names import LONGEST_PAUSE_S, SILENT_AGAIN_S
from isotherm.store import Ledger
from support.in_process import AtOnce
from support.lab import started, uuid_of

START_MS = 1_700_000_000_000


class World:
    """A survey of a real catalog, with a clock that stands where it is put."""

    def __init__(self, lab):
        self.lab = lab
        self.ledger = Ledger(None)
        self.catalog = IcebergCatalog(lab.catalog, threads=AtOnce())
        self.heard, self.known, self.trouble, self.passed_s = [], {}, None, 0.0
        self.ahead_ms, self.good_for_s = 0, float("inf")
        self.settles, self.twice, self.asked = True, [], []
        self.faults, self.away = {}, False
        self._lies, self.catalog.lies = self.catalog.lies, self.lies
        self.survey = self.begun()

    def begun(self, names_at_once=NAMES_AT_ONCE):
        return Survey(
            self.catalog,
            self.ledger,
            Barrier(self.heard.append, lambda: self.passed_s),
            self.tell_apart,
            lambda: self.trouble,
            lambda: self.known,
            self.heard.append,
            self.now_ms,
            lambda: self.passed_s,
            names_at_once,
        )

    def restart(self, after_s):
        """Another process, with a clock of its own, looks after a break."""
        self.ahead_ms += int((self.passed_s + after_s) * 1000)
        self.passed_s = 0.0
        self.survey = self.begun()
        self.list()

    def now_ms(self):
        return START_MS + self.ahead_ms + int(self.passed_s * 1000)

    def lies(self, name):
        self.asked.append(name)
        if self.away:
            raise Unavailable("no connection")
        if name in self.faults:
            raise self.faults[name]
        return self._lies(name)

    def tell_apart(self, table):
        self.twice.append((table.name, table.uuid))
        if not self.settles:
            raise Unavailable("time-out")
        return False

    def list(self, **unlisted):
        asked_s = self.passed_s
        listing = self.catalog.names()
        listing.unlisted.update(unlisted)
        self.survey.listed(listing, asked_s, self.good_for_s, is_whole=not listing.silent)

    def turns(self, number=4):
        for _ in range(number):
            self.survey.turn()

    def gone(self):
        return {one.uuid for one in self.ledger.places() if one.is_gone}


@pytest.fixture
def world(lab):
    for name in ("shop.orders", "other.a", "other.b"):
        lab.create(name)
    made = World(lab)
    yield made
    made.ledger.close()


def test_a_file_may_go_only_if_every_name_was_looked_at_after_it_was_marked(world):
    assert world.survey.seen_since_ms() is None
    world.list()
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1
    assert sorted(world.asked) == ["other.a", "other.b", "shop.orders"]
    assert list(world.survey.names()) == ["other.a", "other.b", "shop.orders"]


def test_a_look_that_goes_on_beyond_the_doubts_of_a_jump_is_as_old_as_its_question(world):
    """A piece of it takes longer than a jump of the clock is doubted."""
    world.list()
    world.turns(1)
    looked, world.catalog.looked = world.catalog.looked, lambda: None
    world.trouble, world.ahead_ms = "the clock has jumped", 7_200_000
    world.turns(1)
    world.trouble, world.catalog.looked, world.passed_s = None, looked, 3700.0
    world.turns(2)

    assert world.survey.seen_since_ms() == START_MS - 1


def test_a_namespace_without_an_answer_keeps_files_waiting(world):
    world.list()
    world.turns()
    listing = world.catalog.names()
    listing.unlisted["federated"] = "time-out"
    world.survey.listed(replace(listing, silent=["federated"]), 0.0, 60.0, is_whole=False)
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert "namespace federated" in world.survey.why_not("shop.orders")
    assert "time-out" in world.survey.why_not("shop.orders")


def test_a_new_name_is_looked_at_alone_and_counts_until_then(world):
    world.list()
    world.turns()
    world.lab.create("other.new")
    world.asked.clear()
    world.passed_s = 60.0
    world.list()
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.asked == ["other.new"]
    assert world.survey.seen_since_ms() == START_MS - 1


def test_all_are_looked_at_again_where_files_wait_for_it_and_not_too_often(world):
    world.list()
    world.turns()
    world.asked.clear()
    world.passed_s = 1000.0
    world.list()
    world.turns()
    assert world.asked == []
    world.survey.want()
    world.turns()
    assert len(world.asked) == 3
    assert world.survey.seen_since_ms() == START_MS + 1_000_000 - 1
    world.survey.want()
    world.passed_s = 1000.0 + PAUSE_S - 1
    world.turns()
    assert len(world.asked) == 3
    world.passed_s += 1
    world.turns()
    assert len(world.asked) == 6


def test_a_long_look_is_followed_by_a_longer_pause(world):
    world.list()
    world.turns()
    world.passed_s = 1000.0
    world.survey.want()
    world.survey.turn()
    world.passed_s += 3600.0
    world.turns()
    world.asked.clear()
    world.survey.want()
    world.passed_s += 8 * 3600.0
    world.turns()
    assert world.asked == []
    world.passed_s += 3600.0
    world.turns()
    assert len(world.asked) == 3


def test_many_names_are_looked_at_piece_by_piece(world):
    world.survey = world.begun(names_at_once=2)
    world.list()
    world.survey.turn()
    assert len(world.asked) == 2
    world.survey.turn()
    assert world.survey.seen_since_ms() is None
    world.survey.turn()
    assert world.survey.seen_since_ms() == START_MS - 1


ANSWERS = [Refused("403"), Unreadable("version 7"), TableMissing("none"), RuntimeError("ours")]


@pytest.mark.parametrize("fault", ANSWERS, ids=["refused", "unreadable", "missing", "mistake"])
def test_what_nobody_can_read_keeps_no_file_waiting_once_it_has_said_so_twice(world, fault):
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is None
    world.passed_s = TWICE_S
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1
    assert len([one for one in world.heard if isinstance(one, TrySoon)]) == 1


@pytest.mark.parametrize("fault", ANSWERS, ids=["refused", "unreadable", "missing", "mistake"])
def test_an_answer_that_passes_does_not_hide_a_second_entry(world, fault):
    """A replica that lags does not have a table yet that was just registered."""
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    del world.faults["other.a"]
    world.passed_s = TWICE_S
    world.turns()
    assert world.twice == [("other.a", uuid)]


@pytest.mark.parametrize("fault", [StoreAway("a bucket"), Unavailable("time-out")], ids=["store", "catalog"])
def test_silence_keeps_files_waiting_for_a_day(world, fault):
    world.faults["other.a"] = fault
    world.list()
    for hours in range(23):
        world.passed_s = hours * 3600.0
        world.turns()
        assert world.survey.seen_since_ms() is None


def test_names_that_do_not_answer_hide_none_of_the_others(world):
    for number in range(8):
        name = f"other.away{number}"
        world.lab.create(name)
        world.faults[name] = Unavailable("time-out")
    for hours in range(30):
        world.passed_s = hours * 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert "shop.orders" in world.asked
    assert world.asked.count("shop.orders") > 1


def test_a_look_that_is_cut_short_is_followed_by_one_that_goes_on_there(world):
    """More names without an answer than one look asks for: files must not wait for ever for those behind."""
    away = [f"other.away{number}" for number in range(2 * SILENT_AT_ONCE)]
    for name in away:
        world.lab.create(name)
        world.faults[name] = Unavailable("time-out")
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    seen_ms = world.survey.seen_since_ms()

    assert world.now_ms() - seen_ms < 3 * 3_600_000
    assert "other.away" in world.survey.why_not("shop.orders")


class Limiting(World):
    """Lets so many requests through in a minute, and says for how long it wants none."""

    limit = 2

    def lies(self, name):
        minute = int(self.passed_s // 60)
        self.minutes = getattr(self, "minutes", [])
        self.minutes.append(minute)
        if self.minutes.count(minute) > self.limit or name in self.limited:
            self.refused += 1
            raise too_many("60")
        return super().lies(name)

    limited, refused = (), 0


def too_many(wanted):
    answer = Response()
    answer.headers["Retry-After"] = wanted
    err = Unavailable("429")
    err.__cause__ = TooManyRequestsError("429")
    err.__cause__.__cause__ = HTTPError(response=answer)
    return err


@pytest.fixture
def limiting(lab):
    for name in ("shop.orders", *(f"other.t{number}" for number in range(6))):
        lab.create(name)
    made = Limiting(lab)
    yield made
    made.ledger.close()


def test_a_catalog_that_limits_requests_is_looked_at_slowly_and_wholly(limiting):
    """Also where tables that hold files back are searched for: what is asked in pieces has shown everything."""
    limiting.ledger.place("gone", "file:///elsewhere")
    limiting.survey.want_holders({"gone"}, uuid_of(limiting.lab.catalog.load_table("shop.orders")))
    for _ in range(240):
        limiting.passed_s += 10.0
        if limiting.passed_s % 300 == 0:
            limiting.list()
        limiting.turns(2)

    assert limiting.survey.seen_since_ms() is not None
    assert limiting.gone() == {"gone"}
    # It is left alone for as long as it says: one request of those that were too many in each minute.
    assert limiting.refused <= limiting.passed_s / 60


def test_one_name_that_is_always_too_many_keeps_no_look_from_its_end(limiting):
    limiting.limited, limiting.limit = ["other.t0"], 1000
    limiting.list()
    for _ in range(120):
        limiting.passed_s += 10.0
        limiting.turns(2)
    assert "6 of the" not in limiting.survey.why_not("shop.orders")
    assert "other.t0 for instance" in limiting.survey.why_not("shop.orders")
    while limiting.passed_s < 2 * PATIENCE_S:
        limiting.passed_s += 600.0
        limiting.list()
        limiting.survey.want()
        limiting.turns(2)
    assert limiting.survey.seen_since_ms() is not None


def test_what_was_never_asked_for_never_counts_as_looked_at(world):
    """Not after a day either."""
    for number in range(2 * SILENT_AT_ONCE):
        world.lab.create(f"other.t{number}")

    def silent(name):
        raise Unavailable(f"{name}: all away")

    world.catalog.lies = silent
    for hours in range(60):
        world.passed_s = hours * 3600.0
        world.list()
        world.turns(1)
    assert world.survey.seen_since_ms() is None


def test_a_list_that_is_old_is_not_the_newest(world):
    world.good_for_s = 700.0
    world.list()
    world.turns()
    world.passed_s = 700.0
    assert world.survey.seen_since_ms() is not None
    world.passed_s = 701.0
    assert world.survey.seen_since_ms() is None
    world.survey.not_listed("403")
    assert "403" in world.survey.why_not("shop.orders")
    assert "403" in world.ledger.obstacles()["survey"]
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is not None
    assert world.ledger.obstacles() == {}


def test_a_name_that_was_dropped_keeps_nothing_waiting_any_more(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert "other.a" in world.ledger.obstacles()["survey"]
    world.lab.catalog.drop_table("other.a")
    world.passed_s = 60.0
    world.list()
    assert world.ledger.obstacles() == {}


def test_a_file_that_was_marked_after_the_list_waits_for_another(world):
    world.list()
    world.passed_s = 100.0
    world.turns()
    assert world.survey.seen_since_ms() == START_MS - 1


@pytest.mark.parametrize("reason", [Reason.MISMATCH, Reason.TWO_ENTRIES])
def test_a_table_that_is_halted_for_something_else_keeps_its_second_entry_unseen(world, reason):
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    hold = Hold(HoldKind.HALT, uuid, "shop.a", str(Refusal(reason, "a test")), 0)
    world.ledger.hold(hold, told=True)
    world.list()
    world.turns()
    assert (world.survey.seen_since_ms() is not None) is (reason is Reason.TWO_ENTRIES)


def test_a_name_that_was_looked_at_before_we_knew_its_table_is_looked_at_again(world):
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.list()
    world.turns()
    assert world.survey.compare_names("other.a", uuid)
    assert not world.survey.compare_names("shop.a", uuid)
    world.known = {uuid: "shop.a"}
    assert world.survey.seen_since_ms() is None
    world.turns()
    assert world.twice == [("other.a", uuid)]


@pytest.mark.parametrize("fault", [Refused("403"), StoreAway("a bucket")], ids=["refused", "silent"])
def test_an_old_name_of_a_table_that_nobody_may_read_by_now_does_not_hold_its_files_for_ever(world, fault):
    uuid = uuid_of(world.lab.catalog.load_table("shop.orders"))
    world.known = {uuid: "shop.orders"}
    world.list()
    world.turns()
    world.lab.catalog.rename_table("shop.orders", "shop.renamed")
    world.lab.create("shop.orders")
    world.faults["shop.orders"] = fault
    world.known = {uuid: "shop.renamed"}
    world.list()
    world.turns()
    assert not world.survey.compare_names("shop.renamed", uuid)
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None
    assert world.survey.compare_names("shop.renamed", uuid)


def test_a_name_that_was_gone_by_one_answer_and_is_listed_again_is_looked_at_again(world):
    """A replica that lags has neither the table yet, nor its name in the list of its namespace."""
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.list()
    world.lab.catalog.rename_table("other.a", "other.hidden")
    world.turns()
    world.lab.catalog.rename_table("other.hidden", "other.a")
    assert world.survey.seen_since_ms() is None
    world.passed_s = 60.0
    world.list()
    world.turns()
    assert world.twice == [("other.a", uuid)]


def test_a_name_without_an_answer_keeps_files_waiting_for_a_day_and_is_asked_ever_more_rarely(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert "other.a for instance: time-out" in world.survey.why_not("shop.orders")
    asked = world.asked.count("other.a")
    assert asked == TRIES
    world.passed_s = SILENT_AGAIN_S - 1
    world.turns()
    assert world.asked.count("other.a") == asked
    times = 0
    while world.passed_s < PATIENCE_S:
        world.passed_s += 600.0
        before = len(world.asked)
        world.turns()
        times += len(world.asked) > before
    assert times <= PATIENCE_S / LONGEST_PAUSE_S + 7
    while world.survey.seen_since_ms() is None and world.passed_s < 3 * PATIENCE_S:
        world.passed_s += 600.0
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None


def silent_for(world, hours):
    """Look for some hours at a catalog of which one name gives no answer; whether that was waited for."""
    for _ in range(round(hours * 6)):
        world.passed_s += 600.0
        world.survey.want()
        world.turns(2)
    return world.survey.seen_since_ms() is not None


def test_a_daemon_that_is_restarted_each_day_waits_no_longer_for_a_silent_name(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert not silent_for(world, 20)
    world.restart(after_s=120.0)
    world.turns()
    # Of the twenty hours those count after which it was asked once more.
    assert not silent_for(world, 3)
    assert silent_for(world, 6)


@pytest.mark.parametrize("what", ["a long break", "an answer", "a name made again", "a clock set back"])
def test_what_a_process_before_saw_of_a_silent_name_does_not_count_after(world, what):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert not silent_for(world, 20)
    if what == "an answer":
        world.faults.clear()
        silent_for(world, 1.5)
        world.faults["other.a"] = Unavailable("time-out")
    if what == "a name made again":
        world.lab.catalog.drop_table("other.a")
        world.list()
        world.lab.create("other.a")
    after_s = {"a long break": 30 * 3600.0, "a clock set back": -20 * 3600.0}.get(what, 120.0)
    world.restart(after_s)
    world.turns()
    assert not silent_for(world, 22)
    assert silent_for(world, 3)


def test_a_process_asks_a_silent_name_for_minutes_itself_and_believes_no_catalog_that_shows_nothing(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    world.turns()
    assert silent_for(world, 25)
    world.restart(after_s=120.0)
    world.turns()
    assert world.survey.seen_since_ms() is None
    assert silent_for(world, 0.5)
    world.restart(after_s=120.0)
    world.faults |= dict.fromkeys(("shop.orders", "other.b"), Unavailable("time-out"))
    assert not silent_for(world, 3)


def test_a_name_that_was_known_and_is_silent_now_counts_as_not_looked_at(world):
    """Also one that a policy matches: it may be a second entry by now."""
    world.list()
    world.turns()
    world.faults["shop.orders"] = Unavailable("time-out")
    world.passed_s = 1000.0
    world.survey.want()
    world.turns()
    assert world.survey.seen_since_ms() is None


@pytest.mark.parametrize("set_ms", [-100 * 86_400_000, -30_000, 30_000])
def test_a_clock_that_is_set_makes_no_look_younger_than_a_mark_that_came_after_it(world, set_ms):
    world.ahead_ms = 100 * 86_400_000
    world.list()
    world.turns()
    began_ms = world.now_ms()
    world.passed_s = 1.0
    world.ahead_ms += set_ms
    # A file that is marked now, by whatever time, was marked after the look.
    assert world.survey.seen_since_ms() < min(world.now_ms(), began_ms + 1)
    # Another look is one by the time that it is now.
    world.passed_s = 100.0
    world.list()
    world.survey.want()
    world.turns()
    assert world.survey.seen_since_ms() == world.now_ms() - 1


def test_a_clock_that_is_set_forward_and_back_during_a_look_is_noticed(world):
    world.survey = world.begun(names_at_once=1)
    world.list()
    world.turns(8)
    world.survey.want()
    world.passed_s = 100.0
    world.list()
    began_ms = world.now_ms()
    world.survey.turn()
    world.ahead_ms -= 40_000
    world.survey.turn()
    world.ahead_ms += 50_000
    world.turns(8)
    assert world.survey.seen_since_ms() == began_ms - 40_000 - 1


def test_nothing_is_looked_at_by_a_clock_that_is_doubted_and_what_was_is_forgotten(world):
    world.list()
    world.turns()
    world.trouble = "it jumped"
    world.turns()
    assert world.survey.seen_since_ms() is None
    asked = len(world.asked)
    world.turns()
    assert len(world.asked) == asked
    world.trouble = None
    world.turns()
    assert world.survey.seen_since_ms() is not None


@pytest.mark.parametrize("fault", [Refused("403"), Unavailable("time-out")], ids=["refused", "silent"])
def test_a_name_that_nobody_can_read_is_looked_at_again_once_the_clock_is_believed_again(world, fault):
    world.faults["other.a"] = fault
    world.list()
    world.turns()
    while world.passed_s < 2 * PATIENCE_S:
        world.passed_s += 3600.0
        world.list()
        world.survey.want()
        world.turns()
    assert world.survey.seen_since_ms() is not None
    world.trouble = "it jumped"
    world.turns()
    assert world.survey.seen_since_ms() is None
    world.trouble = None
    world.turns()
    assert world.survey.seen_since_ms() == world.now_ms() - 1


def test_a_name_that_answers_after_hours_keeps_files_waiting_for_one_more_at_most(world):
    world.faults["other.a"] = Unavailable("time-out")
    world.list()
    while world.passed_s < 12 * 3600.0:
        world.turns()
        world.passed_s += 600.0
    del world.faults["other.a"]
    world.passed_s += LONGEST_PAUSE_S
    world.list()
    world.turns()
    assert world.survey.seen_since_ms() is not None


@pytest.mark.parametrize("settles", [True, False])
def test_a_second_entry_is_told_once_and_keeps_no_other_table_waiting(world, settles):
    world.settles = settles
    uuid = uuid_of(world.lab.catalog.load_table("other.a"))
    world.known = {uuid: "shop.a"}
    world.list()
    world.turns()
    assert world.twice == [("other.a", uuid)]
    assert (world.survey.seen_since_ms() is not None) is settles


def test_a_place_that_is_no_text_is_told_and_keeps_nobody_waiting(world):
    real = world.catalog.lies
    world.catalog.lies = lambda name: Lies("u", "file:///\ud800", {}) if name == "other.a" else real(name)
    world.list()
    world.turns()
    world.passed_s = TWICE_S
    world.turns()
    assert world.survey.seen_since_ms() is not None
    assert "other.a" in world.heard[0].what


@pytest.mark.parametrize("sees", ["everything", "nothing", "not every namespace", "not every table"])
def test_a_table_counts_as_gone_only_after_two_looks_that_saw_everything(world, sees):
    unlisted = {"hidden": "403"} if sees == "not every namespace" else {}
    if sees == "not every table":
        world.faults["other.a"] = Refused("403")
    world.ledger.place("gone", "file:///elsewhere")
    world.list(**unlisted)
    world.turns()
    ours = uuid_of(world.lab.catalog.load_table("shop.orders"))
    world.survey.want_holders({"gone"}, "one that is hidden" if sees == "nothing" else ours)
    gone = []
    for at_s in (0.0, AGAIN_AFTER_S - 1, AGAIN_AFTER_S, 2 * AGAIN_AFTER_S, 3 * AGAIN_AFTER_S):
        world.passed_s = at_s
        world.list(**unlisted)
        world.turns()
        gone.append("gone" in world.gone())

    assert gone == [False, False, *[sees == "everything"] * 3]


def test_the_second_look_is_at_a_list_that_is_younger_than_the_first(world):
    """A table that is renamed during the first look is under its new name in the second."""
    world.ledger.place("gone", "file:///elsewhere")
    world.list()
    world.turns()
    world.survey.want_holders({"gone"}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    world.passed_s = 10.0
    world.turns()
    world.passed_s = 10.0 + AGAIN_AFTER_S
    world.turns()
    assert world.gone() == set()
    world.passed_s += AGAIN_AFTER_S
    world.list()
    world.turns()
    assert world.gone() == {"gone"}


def test_deletion_waits_for_a_name_that_was_this_table_when_it_was_looked_at(lab):
    """A fold that is rebuilt knows a table only after its first scan."""
    table = lab.create()
    for hour in (1, 2, 3):
        lab.append(table, hour)
    lab.catalog.create_namespace("other")
    lab.catalog.register_table("other.a", lab.catalog.load_table("shop.orders").metadata_location)
    service = started(lab)
    service.consume(service.events.poll(0))
    service.survey.listed(service.catalog.names(), service.monotonic_s(), float("inf"), is_whole=True)
    while service.survey.seen_since_ms() is None:
        service.survey.turn()
    lab.catalog.drop_table("other.a")
    service.follower.confirm("shop.orders")
    path = f"{table.location()}/data/isotherm-job-0.parquet"
    service.ledger.mark(uuid_of(table), "job", [Mark(path, "job", Cause.LEFTOVER, None)], 0, due_at_ms=0)
    service.deletions.sweep()
    service.maintainer.wait(30)

    assert not list(service.maintainer.swept())
    service.stop()


def test_tables_that_come_and_go_do_not_keep_a_search_from_its_end(world):
    world.ledger.place("gone", "file:///elsewhere")
    world.survey.want_holders({"gone"}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    for number in range(3):
        world.lab.create(f"other.t{number}")
        world.list()
        world.lab.catalog.drop_table(f"other.t{number}")
        world.turns()
        world.passed_s += AGAIN_AFTER_S
    assert world.gone() == {"gone"}


def test_a_table_that_shows_up_again_is_not_gone(world):
    found = uuid_of(world.lab.catalog.load_table("other.b"))
    world.ledger.place(found, "file:///elsewhere")
    world.survey.want_holders({found}, uuid_of(world.lab.catalog.load_table("shop.orders")))
    for _ in range(3):
        world.list()
        world.turns()
        world.passed_s += AGAIN_AFTER_S
    assert world.gone() == set()


# --- the look itself, beside the loop


def asked(answers, is_stopped=lambda: False, listed=()):
    calls = []

    def is_listed(name):
        if listed == "silence":
            raise Unavailable("time-out")
        return name in listed

    def lies(name):
        calls.append(name)
        answer = answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return Lies(f"uuid of {name}", "file:///", {})

    return Look(lies, is_listed, deque(sorted(answers))).go_on(is_stopped), calls


def test_a_slow_name_is_asked_for_again_behind_all_others():
    looked, calls = asked({"a": Unavailable("time-out"), "b": None, "c": None})
    assert calls == ["a", "b", "c", *"a" * (TRIES - 1)]
    assert (set(looked.found), looked.silent) == ({"b", "c"}, {"a": "time-out"})


def test_a_catalog_that_does_not_answer_is_not_asked_for_every_name():
    looked, calls = asked({f"t{number:03}": NotAsked("away") for number in range(500)})
    assert len(calls) == SILENT_AT_ONCE
    assert (len(looked.silent), len(looked.unasked)) == (SILENT_AT_ONCE, 500 - SILENT_AT_ONCE)


def test_stores_that_do_not_answer_are_no_word_on_the_catalog():
    looked, calls = asked({f"t{number}": StoreAway("a bucket") for number in range(20)})
    assert len(calls) == 20 * TRIES
    assert (looked.unread, len(looked.silent)) == ({}, 20)


def test_a_look_that_is_stopped_knows_nothing_of_the_rest():
    looked, calls = asked({"a": None, "b": None}, lambda: True)
    assert calls == []
    assert (looked.silent, set(looked.unasked)) == ({}, {"a", "b"})


def test_what_is_missing_and_not_listed_any_more_is_gone():
    looked, _ = asked({"a.t": TableMissing("none"), "b.t": TableMissing("none")}, listed=["b.t"])
    assert (looked.gone, looked.missing) == (["a.t"], ["b.t"])
    looked, _ = asked({"a.t": TableMissing("none")}, listed="silence")
    assert (looked.gone, looked.missing) == ([], ["a.t"])


@pytest.mark.parametrize("cause", [UnauthorizedError("expired"), ServerError("502 Bad Gateway")])
def test_a_token_that_is_over_and_a_server_in_trouble_are_no_word_on_a_table(cause):
    refused = Refused("no")
    refused.__cause__ = cause
    looked, _ = asked({"a": refused, "b": Refused("403")})
    assert (set(looked.silent), set(looked.unread)) == ({"a"}, {"b"})
