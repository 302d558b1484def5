"""A policy file that is broken is a complaint, and the last good version of it holds."""

import os
from pathlib import Path

import pytest

from isotherm.service.policies.policy_file import MAX_FILE_BYTES, MAX_VALUES
from isotherm.service.policies.policy_folder import PolicyFolder
from support.policy_folders import BETTER, GENERAL, GOOD, NO_POLICY, Folder, fates, wait

BOMB = "a: &a [x, x]\n" + "\n".join(f"b{n}: &b{n} [*a, *a]" for n in range(9))


def _directory(path):
    path.mkdir()


def _dangling(path):
    path.symlink_to("nowhere")


def _pipe(path):
    os.mkfifo(path)


def _loop(path):
    path.symlink_to(path.name)


BROKEN = {
    "half written": (lambda path: path.write_text("tables: shop.*\ncold: {after: "), "shop.yaml:2:"),
    "empty": (lambda path: path.write_text(""), "shop.yaml:1:1: tables: is missing"),
    "an unknown key": (lambda path: path.write_text(GOOD + "colt: {}"), "did you mean `cold`?"),
    "below a floor": (lambda path: path.write_text(GOOD + "expire: {keep_last: 1}"), "below the floor"),
    "a YAML bomb": (lambda path: path.write_text(BOMB), "aliases (*name) are not allowed"),
    "huge": (lambda path: path.write_text(GOOD + "#" * MAX_FILE_BYTES), "larger than 100000 bytes"),
    "no UTF-8": (lambda path: path.write_bytes(GOOD.encode("utf-16")), "shop.yaml: not UTF-8: byte 1"),
    "zero bytes": (lambda path: path.write_bytes(bytes(100)), "shop.yaml: not YAML"),
    "a folder": (_directory, "shop.yaml: is no file"),
    "a link to nowhere": (_dangling, "shop.yaml: cannot be read: No such file or directory"),
    "a link to itself": (_loop, "shop.yaml: cannot be read: Too many levels of symbolic links"),
    "a pipe that nobody writes to": (_pipe, "shop.yaml: is no file"),
    "deeply nested": (lambda path: path.write_text("[" * 5_000), "nested too deeply"),
    "a tag of YAML": (
        lambda path: path.write_text("tables: x.*\nexpire: {keep_for: !!timestamp 7d}\n"),
        "shop.yaml:2:20: tags (!name) are not allowed",
    ),
    "too many values": (
        lambda path: path.write_text("tables: shop.*\noverride: [" + "a," * (MAX_VALUES + 1) + "]"),
        "shop.yaml:2:20002: more than 10000 values; divide the file",
    ),
    "a number of 5,000 digits": (
        lambda path: path.write_text("tables: " + "9" * 5000),
        "shop.yaml:1:9: no value",
    ),
}


@pytest.mark.parametrize(("make", "complaint"), BROKEN.values(), ids=BROKEN)
class TestBroken:
    def test_the_last_good_version_holds_until_it_is_mended(self, folder, make, complaint):
        (folder.root / "shop.yaml").unlink()
        make(folder.root / "shop.yaml")
        reading = folder.settle()

        assert reading.before is reading.after
        assert folder.after() == 1
        assert complaint in folder.policies.complaints[0]
        assert folder.policies.reload() is None  # told once

        path = folder.root / "shop.yaml"
        path.rmdir() if path.is_dir() else path.unlink()
        folder.write(BETTER)
        folder.settle()
        assert (folder.after(), folder.policies.complaints) == (2, ())

    def test_what_never_was_good_stops_nobody_else(self, folder, make, complaint):
        good = (folder.root / "shop.yaml").read_text()
        (folder.root / "shop.yaml").rename(folder.root / "aside.yaml").write_text(
            good.replace("shop", "other")
        )
        make(folder.root / "shop.yaml")
        fresh = PolicyFolder(folder.root)
        fresh.reload()

        assert complaint in fresh.complaints[0]
        assert [name for name, _ in fresh.files()] == ["aside.yaml"]
        assert fresh.resolve("other.orders", {}).policy.cold.after == 1

    def test_a_restart_does_not_forget_the_last_good_version(self, folder, make, complaint):
        in_force = folder.policies.texts()
        (folder.root / "shop.yaml").unlink()
        make(folder.root / "shop.yaml")
        again = PolicyFolder(folder.root)
        again.recall(in_force)
        wait(again)

        assert again.resolve("shop.orders", {}).policy.cold.after == 1
        assert complaint in again.complaints[0]


@pytest.mark.parametrize("make", [_directory, _pipe], ids=["a folder", "a pipe"])
def test_what_is_no_file_stops_nothing(tmp_path, make):
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL, "all.yaml")
    make(folder.root / "shop.yaml")
    folder.policies.reload()

    assert folder.policies.complaints == ("shop.yaml: is no file",)
    assert fates(folder.policies, NO_POLICY) == NO_POLICY


def test_a_name_that_is_no_text_is_told_in_text(folder):
    (Path(os.fsdecode(os.fsencode(folder.root) + b"/\xff.yaml"))).write_text(GOOD)
    folder.settle()

    first, second = folder.policies.complaints
    assert first == r"\xff.yaml: cannot be read: No such file or directory"
    assert second.startswith(r"\xff.yaml: no good version of it is known: ")


def test_two_files_that_disagree_are_a_complaint_and_the_later_name_holds(folder):
    folder.write(BETTER, "web.yaml")
    folder.settle()

    assert folder.after() == 2
    assert "web.yaml: cold.after is 2, and 1 in shop.yaml (for shop.*)" in folder.policies.complaints[0]
