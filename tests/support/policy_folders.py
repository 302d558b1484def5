"""A folder of policies, and how it is written and read."""

from pathlib import Path

from isotherm.service.policies.policy_folder import PolicyFolder

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


GENERAL = "tables: '*'\ncold: {after: 5}\n"


def fates(policies, tables):
    """What becomes of each table: left alone, kept (nothing is deleted of it), or under its policy."""
    found = {table: policies.resolve(table, {}) for table in tables}
    return {
        table: "alone" if one is None else "free" if one.policy.expire.enabled else "kept"
        for table, one in found.items()
    }


UNKNOWN = {"shop.orders": "kept", "web.clicks": "kept", "web.exact": "free", "logs.app": "kept"}
NO_POLICY = dict.fromkeys(UNKNOWN, "free")
