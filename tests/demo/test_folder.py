"""The folder of a demo: no two share one, and what to do is said in words that the command line can follow."""

from pathlib import Path

import pytest

from isotherm.demo.run import CannotRunError, _folder_to_ourselves


def test_a_second_demo_is_told_what_it_can_do_and_takes_nothing_from_the_first(tmp_path: Path) -> None:
    """There is no option for a folder, so none is spoken of."""
    root = tmp_path / "demo"
    with _folder_to_ourselves(root):
        (root / "mine").touch()
        with (
            pytest.raises(CannotRunError, match="stop it, or begin this one in another directory"),
            _folder_to_ourselves(root),
        ):
            pass

        assert (root / "mine").exists()


def test_a_folder_that_no_demo_has_made_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").touch()
    with (
        pytest.raises(CannotRunError, match="no demo has made: begin this one in another directory"),
        _folder_to_ourselves(tmp_path),
    ):
        pass

    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]
