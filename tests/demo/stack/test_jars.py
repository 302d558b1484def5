"""The locked jars: had once, checked always, offline afterwards."""

import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from isotherm.demo.stack import StackError, jar_paths
from isotherm.demo.stack.jars import LISTS, LISTS_FOLDER, lock

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>tea</artifactId><version>1.0</version></project>"""

DEPENDENCIES = """<dependencies><dependency>
<groupId>org.example</groupId><artifactId>water</artifactId><version>1.0</version>
</dependency></dependencies></project>"""


class Repository:
    """A Maven repository on this machine, its one list, and a person's cache and settings."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "repository" / "org" / "example" / "tea" / "1.0"
        self.lists = folder / "lists"
        self.cache = folder / "cache"
        self.stamps = folder / "stamps"
        self.said: list[str] = []
        self.files.mkdir(parents=True)
        (self.files / "tea-1.0.pom").write_text(POM)
        self.serve(b"tea")
        (self.lists / "tea").mkdir(parents=True)
        (self.lists / "tea" / "jgo.toml").write_text(
            '[dependencies]\ncoordinates = ["org.example:tea:1.0"]\n'
        )

    def serve(self, content: bytes) -> None:
        (self.files / "tea-1.0.jar").write_bytes(content)

    @property
    def cached(self) -> Path:
        return self.cache / "org" / "example" / "tea" / "1.0" / "tea-1.0.jar"

    def jars(self) -> list[Path]:
        return jar_paths("tea", self.stamps, self.said.append, self.lists)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    made = Repository(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "repository")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = tmp_path / "jgo.conf"
    settings.write_text(f"[repositories]\nhere = http://127.0.0.1:{server.server_port}\n")
    monkeypatch.setenv("JGO_CONFIG_FILE", str(settings))
    monkeypatch.setenv("M2_REPO", str(made.cache))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    lock(["tea"], made.said.append, made.lists)
    made.said.clear()
    yield made
    server.shutdown()
    server.server_close()


def test_what_is_in_the_cache_needs_no_download_and_no_word(repository: Repository) -> None:
    repository.serve(b"never asked for")

    assert [repository.cached] == repository.jars()
    assert repository.said == []


def test_what_is_missing_is_downloaded_with_one_word(repository: Repository) -> None:
    repository.cached.unlink()

    assert [repository.cached] == repository.jars()
    assert repository.said == ["downloading 1 of 1 jars for tea (only this once) …"]
    assert repository.cached.read_bytes() == b"tea"


def test_half_a_jar_in_the_cache_is_replaced(repository: Repository) -> None:
    repository.cached.write_bytes(b"te")

    repository.jars()

    assert repository.cached.read_bytes() == b"tea"


def test_a_jar_that_changes_after_the_check_is_checked_again(repository: Repository) -> None:
    repository.jars()
    repository.cached.write_bytes(b"coffee")

    repository.jars()

    assert repository.cached.read_bytes() == b"tea"


def test_another_jar_than_the_locked_one_is_refused_and_kept_out(repository: Repository) -> None:
    repository.cached.unlink()
    repository.serve(b"poison")

    with pytest.raises(StackError, match=r"org\.example:tea.* is not the jar that was locked"):
        repository.jars()

    assert not repository.cached.exists()
    assert list(repository.cached.parent.glob(".isotherm-*")) == []


def test_a_jar_that_cannot_be_had_is_named(repository: Repository) -> None:
    repository.cached.unlink()
    (repository.files / "tea-1.0.jar").unlink()

    with pytest.raises(StackError, match=r"org\.example:tea.* cannot be downloaded: .* not found"):
        repository.jars()


def test_a_lock_that_is_older_than_its_list_is_refused(repository: Repository) -> None:
    spec = repository.lists / "tea" / "jgo.toml"
    spec.write_text(spec.read_text() + "# changed\n")

    with pytest.raises(StackError, match="run `make lock`"):
        repository.jars()


def test_an_archive_is_locked_as_it_is_and_nobody_asks_what_it_needs(repository: Repository) -> None:
    """All that a whole program needs is within. What its project names may be anywhere."""
    (repository.files / "tea-1.0-all.tar.gz").write_bytes(b"a pot")
    (repository.files / "tea-1.0.pom").write_text(
        POM.replace("</project>", DEPENDENCIES)  # of which there is none
    )
    spec = repository.lists / "tea" / "jgo.toml"
    spec.write_text('[dependencies]\ncoordinates = ["org.example:tea:1.0:all:tar.gz:"]\n')
    lock(["tea"], repository.said.append, repository.lists)
    (path,) = repository.jars()

    assert (path.name, path.read_bytes()) == ("tea-1.0-all.tar.gz", b"a pot")


@pytest.mark.parametrize("name", LISTS)
def test_our_locks_hold_a_hash_for_every_jar_and_no_address(name: str) -> None:
    text = (LISTS_FOLDER / name / "jgo.lock.toml").read_text()

    assert (
        text.count("[[dependencies]]")
        == len(re.findall(r'^sha256 = "[0-9a-f]{64}"$', text, re.MULTILINE))
        > 0
    )
    assert "://" not in text
