"""A table whose metadata comes slowly is given up before the loop counts as stuck, and says how slowly it came."""

from types import SimpleNamespace

import pytest

from isotherm.clients.remote_file import RetryingFile
from isotherm.iceberg.catalog import LOAD_WITHIN_S, IcebergCatalog
from isotherm.iceberg.threads import Threads
from isotherm.service.health import TICK_LIMIT_S
from isotherm.service.ports import TooLong
from support.lab import Lab


class OutOfPatience(Threads):
    """Time passes at once for what the loop waits for."""

    def within(self, limit_s, store, work):
        del store
        work()
        raise TimeoutError(f"not done after {limit_s:.0f}s")


class OnASlowLine:
    """A catalog that reads a remote file for each table."""

    def __init__(self, catalog):
        self.catalog = catalog
        self.properties = {}

    def load_table(self, identifier):
        RetryingFile(_File(), _Store()).open()
        return self.catalog.load_table(identifier)


class _File:
    location = "s3://lake/t/metadata/1.metadata.json"

    def open(self):
        return SimpleNamespace(size=lambda: 6000 * 1024)


class _Store:
    def ask(self, action, size_bytes=0):
        return b"" if size_bytes else action()


def test_a_table_whose_metadata_comes_too_slowly_is_set_aside_with_its_size_and_rate(tmp_path):
    lab = Lab(tmp_path)
    lab.create("shop.t")
    catalog = IcebergCatalog(OnASlowLine(lab.catalog), threads=OutOfPatience())

    why = "the 6000 KiB of s3://lake/t/metadata/1.metadata.json did not come within 150 s, so .* 40 KiB a second"
    with pytest.raises(TooLong, match=why):
        catalog.load("shop.t")


def test_the_loop_is_held_by_one_table_for_less_than_it_may_stand_still():
    assert 1.5 * LOAD_WITHIN_S < TICK_LIMIT_S
