"""A policy file of which there never was a good version leaves its tables alone, and deletes nothing of others."""

import pytest
import yaml

from isotherm.service.policies.policy_file import MAX_FILE_BYTES
from isotherm.service.policies.policy_folder import PolicyFolder
from isotherm.service.policies.policy_set import read_policies
from support.policy_folders import GENERAL, GOOD, NO_POLICY, UNKNOWN, Folder, fates


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


SLIP = "tables: shop.*\nexpire: {enabeld: false}\n"


def restarted(policies):
    again = PolicyFolder(policies.path)
    again.recall(policies.texts())
    again.reload()
    if again.is_awaited:
        again.reload()
        again.reload()
    return again


SHOP_ALONE = {"shop.orders": "alone", "web.clicks": "free", "web.exact": "free", "logs.app": "free"}
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
