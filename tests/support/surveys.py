"""A survey of a real catalog, and the clock that it looks by."""

from pyiceberg.exceptions import TooManyRequestsError
from requests import HTTPError, Response

from isotherm.iceberg.catalog import IcebergCatalog
from isotherm.service.ports import Unavailable
from isotherm.service.survey.second_entries import SecondEntries
from isotherm.service.survey.survey import NAMES_AT_ONCE, Survey
from isotherm.service.tables.failing_tables import Barrier
from isotherm.service.tables.seen_names import TWICE_S, SeenNames
from isotherm.store import Ledger
from support.in_process import AtOnce

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
            SecondEntries(
                self.ledger,
                Barrier(self.heard.append, lambda: self.passed_s),
                lambda table: self.tell_apart(table),  # noqa: PLW0108 (as it is then)
                lambda: self.known,
                lambda: self.passed_s,
            ),
            SeenNames(self.ledger),
            lambda: self.trouble,
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

    def list_twice(self):
        """One list does not end a name: a catalog that is restarted leaves out what is there."""
        self.list()
        self.passed_s += TWICE_S
        self.list()

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


def too_many(wanted):
    answer = Response()
    answer.headers["Retry-After"] = wanted
    err = Unavailable("429")
    err.__cause__ = TooManyRequestsError("429")
    err.__cause__.__cause__ = HTTPError(response=answer)
    return err
