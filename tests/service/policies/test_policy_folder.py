"""The folder of policies on a real disk: atomic, the last good version kept, whatever the files are."""

from pathlib import Path

import pytest

from isotherm.service.policies.policy_folder import MAX_UNSETTLED, PolicyFolder
from isotherm.service.policies.policy_set import read_policies
from support.policy_folders import BETTER, GENERAL, GOOD, wait


def test_a_change_is_taken_once_it_looks_the_same_twice(folder):
    folder.write(BETTER)

    assert folder.policies.reload() is None
    assert folder.after() == 1
    reading = folder.policies.reload()
    assert (reading.before.files["shop.yaml"].cold.after, reading.after.files["shop.yaml"].cold.after) == (
        1,
        2,
    )
    assert folder.after() == 2
    assert folder.policies.reload() is None


def test_nothing_is_opened_that_looks_as_before(folder, monkeypatch):
    opened = []
    real = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *rest, **how: opened.append(path.name) or real(path, *rest, **how)
    )
    folder.write(GOOD.replace("shop", "web"), "web.yaml")
    folder.settle()
    for _ in range(3):
        folder.policies.reload()

    assert [name for name in opened if not name.startswith(".")] == ["web.yaml"]


def test_a_file_that_is_written_piece_by_piece_is_waited_for(folder):
    """Its first half is a good policy too: of another kind."""
    path = folder.root / "shop.yaml"
    with path.open("w") as file:
        for piece in ("tables: shop.*\n", "cold: {after: 2}\n", "expire: {keep_for: 30d}\n"):
            file.write(piece)
            file.flush()
            assert folder.policies.reload() is None
            assert folder.after() == 1
    folder.policies.reload()

    assert folder.policies.resolve("shop.orders", {}).policy.expire.keep_for == 30 * 86_400_000


def test_files_that_change_together_are_taken_together(folder):
    folder.write(GOOD.replace("shop", "web"), "web.yaml")
    folder.policies.reload()
    folder.write(BETTER)
    folder.policies.reload()

    assert (folder.after(), folder.after("web.clicks")) == (1, None)
    folder.policies.reload()
    assert (folder.after(), folder.after("web.clicks")) == (2, 1)


def test_a_folder_that_never_rests_is_taken_all_the_same(folder):
    folder.write(BETTER)
    for count in range(MAX_UNSETTLED + 1):
        folder.write(GOOD.replace("shop", f"noise{count}"), "noise.yaml")
        folder.policies.reload()

    assert folder.after() == 2


def test_a_file_that_is_deleted_ends_its_policy(folder):
    (folder.root / "shop.yaml").unlink()
    reading = folder.settle()

    assert (list(reading.before.files), list(reading.after.files)) == (["shop.yaml"], [])
    assert (folder.after(), folder.policies.complaints) == (None, ())


def test_a_folder_that_disappears_keeps_the_last_good_ones(folder):
    aside = folder.root.with_name("aside")
    folder.root.rename(aside)
    reading = folder.policies.reload()

    assert reading.before is reading.after
    assert folder.after() == 1
    assert "no such folder" in folder.policies.complaints[0]
    assert folder.policies.reload() is None

    aside.rename(folder.root)
    folder.settle()
    assert (folder.after(), folder.policies.complaints) == (1, ())


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_text("no folder"), "Not a directory"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
)
def test_a_folder_that_cannot_be_read_is_not_said_to_be_missing(folder, make, why):
    folder.root.rename(folder.root.with_name("aside"))
    make(folder.root)
    folder.policies.reload()

    assert folder.policies.complaints == (f"{folder.root}: cannot be read: {why}",)
    assert folder.after() == 1


def test_a_folder_that_comes_back_with_other_files_is_read_again(folder):
    (folder.root / "shop.yaml").rename(folder.root.with_name("shop.yaml"))
    folder.root.rmdir()
    folder.policies.reload()
    folder.root.mkdir()
    folder.settle()

    assert (folder.after(), folder.policies.complaints) == (None, ())


def test_a_config_map_is_swapped_by_a_link(tmp_path):
    """Kubernetes: shop.yaml → ..data/shop.yaml, ..data → ..2026_01; a swap replaces ..data alone."""
    root = tmp_path / "policies"
    for version, text in (("..2026_01", GOOD), ("..2026_02", BETTER)):
        (root / version).mkdir(parents=True)
        (root / version / "shop.yaml").write_text(text)
    (root / "..data").symlink_to("..2026_01")
    (root / "shop.yaml").symlink_to("..data/shop.yaml")
    policies = PolicyFolder(root)
    policies.reload()
    assert policies.resolve("shop.orders", {}).policy.cold.after == 1

    (root / "..data_tmp").symlink_to("..2026_02")
    (root / "..data_tmp").rename(root / "..data")
    policies.reload()
    policies.reload()

    assert policies.resolve("shop.orders", {}).policy.cold.after == 2
    assert policies.complaints == ()


def test_a_file_deleted_while_the_daemon_was_down_has_ended_its_policy(folder):
    in_force = folder.policies.texts()
    (folder.root / "shop.yaml").unlink()
    again = PolicyFolder(folder.root)
    again.recall(in_force)
    reading = wait(again)

    assert (list(reading.before.files), list(reading.after.files)) == (["shop.yaml"], [])


def test_what_another_version_of_the_program_held_is_forgotten_where_it_says_nothing_to_this_one(folder):
    again = PolicyFolder(folder.root)
    again.recall({"old.yaml": "tables: a\nno_such_section: {}", "shop.yaml": BETTER})

    assert [name for name, _ in again.files()] == ["shop.yaml"]


def test_a_restart_waits_for_a_folder_that_is_being_filled_and_not_for_one_that_is_as_it_was(folder):
    folder.write(GENERAL, "all.yaml")
    folder.settle()
    known = folder.policies.texts()
    same = PolicyFolder(folder.root)
    same.recall(known)
    assert same.reload() is not None
    assert not same.is_awaited

    (folder.root / "shop.yaml").unlink()
    again = PolicyFolder(folder.root)
    again.recall(known)
    for _ in range(2):
        assert again.reload() is None
        assert again.is_awaited
    folder.write(BETTER)
    readings = [again.reload() for _ in range(3)]

    assert readings[:2] == [None, None]
    assert (again.is_awaited, again.resolve("shop.orders", {}).policy.cold.after) == (False, 2)
    # A command does not wait.
    asked = PolicyFolder(folder.root)
    asked.recall(known)
    assert asked.reload(at_once=True).after.files["shop.yaml"].cold.after == 2


def test_the_right_to_read_is_asked_for_again(folder, monkeypatch):
    """Root may read everything, so the refusal is played."""
    real, is_refused = Path.open, True

    def refuse(path, *rest, **how):
        if is_refused and path.name == "shop.yaml":
            raise PermissionError(13, "Permission denied")
        return real(path, *rest, **how)

    monkeypatch.setattr(Path, "open", refuse)
    folder.write(BETTER)
    folder.settle()
    assert folder.policies.complaints == ("shop.yaml: cannot be read: Permission denied",)
    is_refused = False
    folder.policies.reload()
    folder.policies.reload()

    assert (folder.after(), folder.policies.complaints) == (2, ())


def test_hidden_files_and_others_are_not_looked_at(folder):
    (folder.root / ".#shop.yaml").symlink_to("somebody@somewhere.123")
    (folder.root / ".shop.yaml.swp").write_bytes(b"\0")
    (folder.root / "notes.txt").write_text("no policy")
    (folder.root / "sub").mkdir()
    (folder.root / "sub" / "shop.yaml").write_text("no: policy")

    assert folder.policies.reload() is None
    assert folder.policies.reload() is None
    assert folder.policies.complaints == ()


def test_the_same_text_written_again_changes_nothing(folder):
    folder.write(GOOD)

    assert folder.settle() is None


def test_policies_that_a_person_names_are_one_set(folder):
    folder.write("tables: a\nx: 1", "bad.yml")
    found = read_policies([folder.root, folder.root / "missing.yaml"])

    assert [name for name, _ in found.files] == [str(folder.root / "shop.yaml")]
    assert [str(folder.root / "bad.yml") + ":2:1", str(folder.root / "missing.yaml")] == [
        text.split(": ")[0] for text in found.complaints
    ]
