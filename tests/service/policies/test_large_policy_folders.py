"""A large folder of policies is opened in slices, taken as a whole, and left closed where nothing changed."""

from pathlib import Path

from isotherm.service.policies.policy_folder import LEAST_BYTES, MAX_UNSETTLED, SLICE_BYTES, PolicyFolder
from support.policy_folders import BETTER, Folder


def fill(folder, after):
    """Files of more bytes than one reading opens."""
    for number in range(5):
        text = f"tables: many{number}.*\ncold: {{after: {after}}}\n"
        folder.write(text + "#" * 99_000, f"{number}.yaml")


def test_a_large_change_is_opened_in_slices_and_taken_as_a_whole(folder):
    assert 4 * 99_000 < SLICE_BYTES + 99_000 < 5 * 99_000
    fill(folder, 3)
    folder.write(BETTER)
    assert [folder.policies.reload() for _ in range(2)] == [None, None]
    assert (folder.after(), folder.after("many0.x")) == (1, None)

    assert folder.policies.reload() is not None
    assert [folder.after(f"many{number}.x") for number in range(5)] == [3] * 5
    assert folder.after() == 2
    assert folder.policies.reload() is None

    # What changes between two slices is taken in its newest version.
    fill(folder, 4)
    assert [folder.policies.reload() for _ in range(2)] == [None, None]
    folder.write("tables: many0.*\ncold: {after: 5}\n", "0.yaml")
    readings = [folder.policies.reload() for _ in range(3)]
    assert readings[0] is None
    assert [folder.after(f"many{number}.x") for number in range(5)] == [5, 4, 4, 4, 4]
    assert folder.policies.complaints == ()


def test_many_empty_files_are_opened_in_slices_too(folder):
    for number in range(SLICE_BYTES // LEAST_BYTES + 1):
        folder.write("", f"{number:04}.yaml")
    folder.write(BETTER)
    assert [folder.policies.reload() for _ in range(2)] == [None, None]
    assert folder.after() == 1

    assert folder.policies.reload() is not None
    assert folder.after() == 2


def test_a_daemon_that_begins_waits_for_a_large_folder_and_a_command_reads_all_of_it(tmp_path):
    folder = Folder(tmp_path / "policies")
    fill(folder, 3)
    assert folder.policies.reload() is None
    assert folder.policies.is_awaited
    assert folder.policies.reload() is not None
    assert not folder.policies.is_awaited
    assert folder.after("many4.x") == 3

    asked = PolicyFolder(folder.root)
    assert asked.reload(at_once=True) is not None
    assert len(asked.files()) == 5


def test_a_round_with_a_thousand_files_opens_none(folder, monkeypatch):
    for number in range(1000):
        folder.write(f"tables: ns{number}.*\ncold: {{after: {number}}}", f"{number}.yaml")
    readings = [folder.policies.reload() for _ in range(6)]
    assert sum(reading is not None for reading in readings) == 1
    monkeypatch.setattr(Path, "open", None)

    assert folder.policies.reload() is None
    assert folder.after("ns77.t") == 77


def test_a_large_change_comes_into_force_though_all_files_are_written_again_all_the_time(folder):
    """A program that writes the whole folder each minute, with the same text."""
    for _ in range(3 * MAX_UNSETTLED):
        fill(folder, 3)
        folder.policies.reload()

    assert [folder.after(f"many{number}.x") for number in range(5)] == [3] * 5
