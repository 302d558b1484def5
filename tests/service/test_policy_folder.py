"""The folder of policies on a real disk: atomic, the last good version kept, whatever the files are."""

import os
from pathlib import Path

import pytest
import yaml

from isotherm.service.policy_file import MAX_FILE_BYTES, MAX_VALUES
from isotherm.service.policy_folder import LEAST_BYTES, MAX_UNSETTLED, SLICE_BYTES, PolicyFolder
from isotherm.service.policy_set import read_policies

GOOD = "tables: shop.*\ncold: {after: 1}\n"
BETTER = "tables: shop.*\ncold: {after: 2}\n"


class Folder:
    """A folder of policies, and how it is read."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.policies = PolicyFolder(root)

    def write(self, text: str | bytes, name: str = "shop.yaml") -> None:
        """Written aside and swapped in, as careful programs do."""
        aside = self.root / f".{name}.tmp"
        aside.write_bytes(text.encode() if isinstance(text, str) else text)
        aside.rename(self.root / name)

    def settle(self):
        """Two rounds: what changed is seen, and then taken."""
        first, second = self.policies.reload(), self.policies.reload()
        assert first is None
        return second

    def after(self, table: str = "shop.orders") -> float | None:
        found = self.policies.resolve(table, {})
        return None if found is None else found.policy.cold.after


def wait(policies):
    """Until a folder is taken that was changed over a restart: when it looked the same in three readings."""
    readings = [policies.reload() for _ in range(3)]
    assert readings[:2] == [None, None]
    return readings[2]


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "policies")
    folder.write(GOOD)
    assert folder.policies.reload() is not None
    assert (folder.after(), folder.policies.complaints) == (1, ())
    return folder


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


@pytest.fixture
def odd_reader(monkeypatch):
    """PyYAML with a mistake, of a kind that it has had."""

    def compose(composer, anchor):
        event = composer.get_event()
        if event.value == "odd":
            raise AttributeError("'NoneType' object has no attribute 'groupdict'")
        return yaml.ScalarNode(composer.resolve(yaml.ScalarNode, event.value, event.implicit), event.value)

    monkeypatch.setattr(yaml.SafeLoader, "compose_scalar_node", compose)


def test_a_file_on_which_the_reader_fails_is_a_complaint_and_leaves_its_tables_alone(tmp_path, odd_reader):
    folder = Folder(tmp_path / "policies")
    folder.write("tables: shop.orders\ncold: {after: 1, odd: 1}\n", "odd.yaml")
    folder.write(GENERAL, "all.yaml")
    folder.policies.reload()

    assert folder.policies.complaints[0] == (
        "odd.yaml: cannot be judged: AttributeError: 'NoneType' object has no attribute 'groupdict'"
    )
    assert fates(folder.policies, ["shop.orders", "web.x"]) == {"shop.orders": "alone", "web.x": "free"}
    assert "odd.yaml: cannot be judged: Attr" in read_policies([folder.root]).complaints[0]
    again = PolicyFolder(folder.root)
    again.recall({"odd.yaml": (folder.root / "odd.yaml").read_text()})
    assert again.files() == []


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


GENERAL = "tables: '*'\ncold: {after: 5}\n"
SLIP = "tables: shop.*\nexpire: {enabeld: false}\n"


def restarted(policies):
    again = PolicyFolder(policies.path)
    again.recall(policies.texts())
    again.reload()
    if again.is_awaited:
        again.reload()
        again.reload()
    return again


def fates(policies, tables):
    """What becomes of each table: left alone, kept (nothing is deleted of it), or under its policy."""
    found = {table: policies.resolve(table, {}) for table in tables}
    return {
        table: "alone" if one is None else "free" if one.policy.expire.enabled else "kept"
        for table, one in found.items()
    }


UNKNOWN = {"shop.orders": "kept", "web.clicks": "kept", "web.exact": "free", "logs.app": "kept"}
SHOP_ALONE = {"shop.orders": "alone", "web.clicks": "free", "web.exact": "free", "logs.app": "free"}
NO_POLICY = dict.fromkeys(UNKNOWN, "free")

NEVER_GOOD = {
    "a slip": (SLIP, SHOP_ALONE),
    "a list": ("tables: [shop.*, 'a b']\nfoo: 1\n", SHOP_ALONE),
    "two names in one": ("tables:\n  - shop.orders\n    - shop.items\n", SHOP_ALONE),
    "a name that goes on": ("tables:\n  - shop.orders\n    shop.items\n", SHOP_ALONE),
    "names that are no list": ("tables: shop.orders, shop.items\n", SHOP_ALONE),
    "an item without a space": ("tables:\n  -shop.orders\n", SHOP_ALONE),
    "no YAML behind its tables": ("tables: shop.*\nexpire:\n  keep_for: 10w\n\tkeep_last: 9\n", SHOP_ALONE),
    "half written": ("tables: shop.*\ncold: {after: ", SHOP_ALONE),
    "an alias behind its tables": ("tables: shop.*\ncold: *none\n", SHOP_ALONE),
    "its tables come later": ("cold: {after: [1, {b: 2}]}\ntables: shop.*\nexpire: [", SHOP_ALONE),
    "two documents": ("cold: {after: 1}\n---\ntables: shop.*\n", SHOP_ALONE),
    "Latin-1": (b"tables: shop.*  # f\xfcr immer\n", SHOP_ALONE),
    "a zero byte behind its tables": (b"tables: shop.*\ncold: {after: \0}\n", SHOP_ALONE),
    "more general than others": (
        "tables: '*'\nfoo: 1\n",
        {"shop.orders": "alone", "web.clicks": "kept", "web.exact": "free", "logs.app": "alone"},
    ),
    "as specific as another": ("tables: web.exact\nfoo: 1\n", {**NO_POLICY, "web.exact": "alone"}),
    "half a list": ("tables: [shop.*\n", {**UNKNOWN, "shop.orders": "alone"}),
    "a colon is missing": ("tables: shop.*\n  web.x\n  expire: {}\n", {**UNKNOWN, "shop.orders": "alone"}),
    "an alias for a table": ("tables: [shop.*, *none]\n", {**UNKNOWN, "shop.orders": "alone"}),
    "a capital": ("Tables: shop.*\nEXPIRE: {enabled: false}\n", {**UNKNOWN, "shop.orders": "alone"}),
    "all keys misspelt": ("tabel: shop.*\nexipre: {enabled: false}\n", {**UNKNOWN, "shop.orders": "alone"}),
    "cases that name a table": (
        "tests:\n  - {name: a, table: shop.x}\ntables: shop.*\nfoo: 1\ntest: [{table: web.exact}]\n",
        SHOP_ALONE,
    ),
    "tables among the cases": ("tests:\n  - name: a\n    tables: shop.*\n", UNKNOWN),
    "below another key": (
        "policy:\n  tables: shop.*\n  expire: {enabled: false}\n",
        {**UNKNOWN, "shop.orders": "alone"},
    ),
    "a list of policies": ("- tables: shop.*\n", {**UNKNOWN, "shop.orders": "alone"}),
    "a misspelt section alone": ("expires: {enabled: false}\n", UNKNOWN),
    "a bracket without its end": ("tables: [shop.*, 'web.[x']\n", {**UNKNOWN, "shop.orders": "alone"}),
    "half a name": (b"tables: shop.*\0x\n", UNKNOWN),
    "a bare star": ("tables: *\n", UNKNOWN),
    "a mapping of tables": ("tables: {shop.orders: {}}\n", UNKNOWN),
    "no tables": ("expire: {enabled: false}\n", UNKNOWN),
    "no text": (b"\xff\xfe", UNKNOWN),
    "zero bytes": (bytes(100), UNKNOWN),
    "too deep": ("[" * 5_000, UNKNOWN),
    "huge": ("#" * (MAX_FILE_BYTES + 1), UNKNOWN),
    "empty": ("", NO_POLICY),
    "a comment": ("# later\n", NO_POLICY),
    "an empty document": ("---\n...\n", NO_POLICY),
    "something else": ("resources: [shop.yaml]\n", NO_POLICY),
    "several others": ("kind: ConfigMap\n---\nkind: Secret\n", NO_POLICY),
    "keys that are like none": ("labels: {a: 1}\nresources: [x]\n", NO_POLICY),
}


@pytest.mark.parametrize("is_new", [True, False], ids=["from the start", "while it runs"])
@pytest.mark.parametrize(("text", "expected"), NEVER_GOOD.values(), ids=NEVER_GOOD)
def test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start(tmp_path, text, expected, is_new):
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL, "all.yaml")
    folder.write("tables: web.*\n", "web.yaml")
    folder.write("tables: web.exact\nexpire: {keep_for: 30d}\n", "exact.yaml")
    policies = folder.policies if is_new else PolicyFolder(folder.root)
    if not is_new:
        policies.reload()
    folder.write(text)
    for _ in range(2):
        policies.reload()

    for _ in range(3):
        assert fates(policies, expected) == expected
        assert policies.complaints
        assert any("no good version of it" in line for line in policies.complaints) == (expected != NO_POLICY)
        policies = restarted(policies)

    folder.write(GOOD)
    policies.reload()
    policies.reload()
    assert policies.complaints == ()
    assert fates(policies, expected) == NO_POLICY


N = 99_000
HOSTILE = {
    "an endless pattern": f'tables: "{"[" * N}"',
    "many endless patterns": "tables: [" + f'"{"[" * 900}",' * (N // 903) + "]",
    "an endless name": "tables: shop.orders" + "x" * 90_000 + "\nfoo: 1",
    "many patterns": "tables: [" + ",".join(f"'*{number}'" for number in range(9_000)) + "]\nfoo: 1",
    "many values": "tables: [" + "a," * (N // 2) + "]",
    "many keys": "tables: shop.orders\nx: {" + ",".join(f"table{number}:" for number in range(9_000)) + "}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.timeout(60)
def test_a_broken_file_is_compared_with_tables_in_bounded_time_and_nothing_is_deleted_meanwhile(
    tmp_path, text
):
    """A second or two on a quiet machine; the limit only tells seconds from minutes."""
    assert len(text) <= MAX_FILE_BYTES
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL, "all.yaml")
    for number in range(3):
        folder.write(text, f"hostile{number}.yaml")
    folder.policies.reload()
    tables = [f"shop.table_{number}" for number in range(100)]

    assert {name: fate for name, fate in fates(folder.policies, tables).items() if fate == "free"} == {}


@pytest.mark.parametrize("make", [_directory, _pipe], ids=["a folder", "a pipe"])
def test_what_is_no_file_stops_nothing(tmp_path, make):
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL, "all.yaml")
    make(folder.root / "shop.yaml")
    folder.policies.reload()

    assert folder.policies.complaints == ("shop.yaml: is no file",)
    assert fates(folder.policies, NO_POLICY) == NO_POLICY


def test_a_policy_that_deletes_nothing_for_a_broken_file_says_so(tmp_path):
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL + "orphans: {mode: apply}\n", "all.yaml")
    folder.write("tables: [", "new.yaml")
    folder.policies.reload()
    found = folder.policies.resolve("shop.orders", {})

    assert found.policy.compact.enabled
    assert (found.policy.expire.enabled, found.policy.metadata.enabled, found.policy.orphans.mode) == (
        False,
        False,
        "off",
    )
    assert {found.origins[name] for name in ("expire.enabled", "metadata.enabled", "orphans.mode")} == {
        "new.yaml is broken"
    }
    assert "nothing is deleted until new.yaml is mended" in found.notes[-1]


def test_who_names_a_table_without_saying_how_long_to_keep_leaves_that_to_the_broken_file(tmp_path):
    """It may have said `expire: {keep_for: 3650d}` for all of `shop.*`."""
    folder = Folder(tmp_path / "policies")
    folder.write("tables: '*'\nexpire: {keep_for: 2d}\n", "all.yaml")
    folder.write("tables: shop.orders\ncold: {after: 3}\n", "orders.yaml")
    folder.write("tables: shop.*\nfoo: 1\n")
    folder.policies.reload()

    assert folder.after() == 3
    assert fates(folder.policies, ["shop.orders", "shop.x"]) == {"shop.orders": "kept", "shop.x": "alone"}


def test_what_another_version_understood_leaves_its_tables_alone_at_every_start_and_holds_after_a_downgrade(
    tmp_path,
):
    folder = Folder(tmp_path / "policies")
    folder.write(GENERAL, "all.yaml")
    later = "tables: shop.*\ncold: {after: 1, of_a_later_version: 1}\n"
    folder.write(later)
    policies = folder.policies
    policies.recall({"all.yaml": GENERAL, "shop.yaml": later})
    policies.reload()
    for _ in range(3):
        assert not policies.is_awaited
        assert policies.resolve("shop.orders", {}) is None
        assert policies.resolve("web.clicks", {}) is not None
        assert policies.texts() == {"all.yaml": GENERAL, "shop.yaml": later}
        policies = restarted(policies)

    # What cannot be opened at all is known by what it said before.
    (folder.root / "shop.yaml").unlink()
    (folder.root / "shop.yaml").symlink_to("nowhere")
    policies = restarted(policies)
    assert policies.resolve("shop.orders", {}) is None
    assert policies.resolve("web.clicks", {}) is not None


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


def test_the_same_text_written_again_changes_nothing(folder):
    folder.write(GOOD)

    assert folder.settle() is None


def test_a_round_with_a_thousand_files_opens_none(folder, monkeypatch):
    for number in range(1000):
        folder.write(f"tables: ns{number}.*\ncold: {{after: {number}}}", f"{number}.yaml")
    readings = [folder.policies.reload() for _ in range(6)]
    assert sum(reading is not None for reading in readings) == 1
    monkeypatch.setattr(Path, "open", None)

    assert folder.policies.reload() is None
    assert folder.after("ns77.t") == 77


def test_policies_that_a_person_names_are_one_set(folder):
    folder.write("tables: a\nx: 1", "bad.yml")
    found = read_policies([folder.root, folder.root / "missing.yaml"])

    assert [name for name, _ in found.files] == [str(folder.root / "shop.yaml")]
    assert [str(folder.root / "bad.yml") + ":2:1", str(folder.root / "missing.yaml")] == [
        text.split(": ")[0] for text in found.complaints
    ]


def test_a_large_change_comes_into_force_though_all_files_are_written_again_all_the_time(folder):
    """A program that writes the whole folder each minute, with the same text."""
    for _ in range(3 * MAX_UNSETTLED):
        fill(folder, 3)
        folder.policies.reload()

    assert [folder.after(f"many{number}.x") for number in range(5)] == [3] * 5
