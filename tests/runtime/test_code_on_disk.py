"""What tells the code of one version from that of another."""

import errno
from pathlib import Path

import pytest

import isotherm
from isotherm.runtime.code_on_disk import CHANGING, code_of_ours, code_on_disk, is_other_code


@pytest.mark.parametrize("suffix", ["py", "pyc"])
def test_whatever_a_rewrite_runs_makes_it_other_code(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = (".", "contract", "core/model", "iceberg/manifests/deep", "clients")
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"one.{suffix}").write_text("x = 1")
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    seen = {code_on_disk()}
    for folder in folders:
        (tmp_path / folder / f"one.{suffix}").write_text("x = 2")
        seen.add(code_on_disk())
        (tmp_path / folder / f"one.{suffix}").rename(tmp_path / folder / f"two.{suffix}")
        seen.add(code_on_disk())

    assert len(seen) == 1 + 2 * len(folders)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "two.cpython-313.pyc").write_text("made of what is there")
    assert code_on_disk() in seen


def test_where_no_code_lies_as_files_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade would go unnoticed."""
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])

    assert code_on_disk() == ""
    with pytest.raises(ImportError, match="install it into a folder"):
        code_of_ours()


def test_while_files_come_and_go_it_is_nobodys_code_and_nothing_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A folder is taken away between being listed and being looked into: so pip does."""

    def gone(*_: object) -> None:
        raise FileNotFoundError("a folder that is gone by now")

    ours = code_on_disk()
    monkeypatch.setattr("isotherm.runtime.code_on_disk._paths", gone)

    assert code_on_disk() not in {ours, ""}
    with pytest.raises(ImportError, match="being installed just now"):
        code_of_ours()


def test_a_file_of_an_editor_is_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.py").write_text("x = 1")
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    before = code_on_disk()
    (tmp_path / ".#one.py").symlink_to("nobody@nowhere")
    (tmp_path / "._one.py").write_bytes(b"of another system")

    assert code_on_disk() == before


def test_code_is_the_same_as_long_as_nobody_changes_it() -> None:
    assert code_on_disk() == code_on_disk()


def test_code_in_a_folder_that_is_a_link_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where each version lies in a folder of its own, and links say which is installed."""
    (tmp_path / "there").mkdir()
    (tmp_path / "installed").mkdir()
    (tmp_path / "there" / "one.py").write_text("x = 1")
    (tmp_path / "installed" / "core").symlink_to(tmp_path / "there")
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path / "installed")])
    before = code_on_disk()
    (tmp_path / "there" / "one.py").write_text("x = 2")

    assert code_on_disk() not in {before, ""}


def test_where_no_file_can_be_opened_nobody_says_that_another_version_was_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def short(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", short)

    assert not is_other_code()


def test_links_in_a_circle_are_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "one.py").write_text("x = 1")
    for name in ("up", "again"):
        (tmp_path / "core" / name).symlink_to(tmp_path)
    monkeypatch.setattr(isotherm, "__path__", [str(tmp_path)])
    opened = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: opened.append(path) or read(path))

    assert code_on_disk() not in {"", CHANGING}
    assert opened == [tmp_path / "core" / "one.py"]


def test_code_that_cannot_be_read_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)

    with pytest.raises(ImportError, match=r"cannot be read: .*Permission denied"):
        code_of_ours()
