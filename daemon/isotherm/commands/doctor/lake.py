"""Checks of the policies, the catalog, each of its namespaces, the stores, and what tables say against their policy."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from isotherm.commands.doctor.checks import IMPORT_WITHIN_S, Check, Finding, unknown, well, wrong
from isotherm.commands.doctor.fights import fights
from isotherm.commands.doctor.subject import Subject
from isotherm.commands.pyiceberg_file import reading_its_own_file
from isotherm.core.clock_check import SKEW_MS
from isotherm.core.units import size_text, span_text
from isotherm.runtime.text import counted
from isotherm.service.policies.policy_folder import in_force
from isotherm.store.database import StoreError
from isotherm.store.folder import LEDGER

if TYPE_CHECKING:
    from isotherm.iceberg.rights import Namespaces

CATALOG_TIMEOUT_S = 8.0
"""For one answer; a check waits for ten seconds, and is to say what was wrong."""
NAMED = 8
"""Tables that are named in one line."""
URI = "catalog.properties.uri says where it is: can this machine reach it, and are its rights those of the daemon?"
RIGHTS = "the daemon's principal needs the rights to list, to load and to commit there"
STORE = "the keys in catalog.properties (or those that the catalog lends) need this right, at this endpoint"


def checks(subject: Subject, is_silent: Callable[[], bool]) -> Iterator[Check]:
    """All of them; which come later depends on what the first ones find.

    Args:
        subject: what is known.
        is_silent: whether nothing came of the last three checks: then the tables are not asked any more.
    """
    yield Check("policies", lambda: policies(subject), "`isotherm policy validate` says more")
    yield Check("catalog", lambda: libraries(subject), limit_s=IMPORT_WITHIN_S)
    if not subject.is_ready:
        return
    waiting: list[tuple[str, ...]] = []
    yield Check("catalog", lambda: catalog(subject, waiting), URI)
    if subject.catalog is None:
        return
    from isotherm.iceberg.rights import Namespaces

    found = Namespaces(subject.catalog)
    while waiting and not is_silent():
        one = waiting.pop(0)
        look = partial(namespace, subject, found, one, waiting)
        yield Check(f"namespace {found.name(one)}", look, RIGHTS)
    for name in list(subject.names):
        if is_silent():
            break
        yield Check(f"table {name}", lambda name=name: table(subject, name))  # type: ignore[misc]
    yield Check("tables", lambda: tables(subject))
    for store in list(subject.stores):
        yield Check(f"store {store}", lambda store=store: store_rights(subject, store), STORE)  # type: ignore[misc]
    yield Check("clock", lambda: clock(subject))


def policies(subject: Subject) -> Iterator[Finding]:
    """That they can be read, as the daemon will have them."""
    from isotherm.store.ledger import Ledger

    known: dict[str, str] = {}
    path = subject.config.state.path / LEDGER
    if path.exists():
        try:
            opened = Ledger(path, read_only=True)
            known = opened.policies()
            opened.close()
        except StoreError:
            known = {}  # the ledger has a check of its own
    subject.policies = folder = in_force(subject.config.policies, known)
    for complaint in folder.complaints:
        yield wrong(complaint, "`isotherm policy validate`; until then its last good version holds")
    files = folder.files()
    if not files:
        yield wrong(
            f"no policy in {subject.config.policies}: no table is maintained",
            "`isotherm init` writes a first one; policies/default.yaml is one for all tables",
        )
    elif not folder.complaints:
        yield well(f"{counted(len(files), 'file')} in {subject.config.policies}")


def libraries(subject: Subject) -> Iterator[Finding]:
    """That PyIceberg can be had, and its own file."""
    with reading_its_own_file():
        from isotherm.iceberg.catalog import described_as
    subject.secrets.add(described_as(subject.config.catalog.name))
    subject.is_ready = True
    yield from ()


def catalog(subject: Subject, waiting: list[tuple[str, ...]]) -> Iterator[Finding]:
    """That it answers. `waiting` is told the namespaces at the top."""
    from isotherm.iceberg.catalog import IcebergCatalog, connect_to_read
    from isotherm.iceberg.rights import Namespaces

    given = subject.config.catalog
    limited = given.model_copy(update={"timeout_s": min(given.timeout_s, CATALOG_TIMEOUT_S)})
    found = IcebergCatalog(connect_to_read(limited), subject.now_ms)
    waiting += Namespaces(found).top()
    subject.catalog = found
    said = f"answers; {counted(len(waiting), 'namespace')} at the top"
    yield well(said) if waiting else unknown(f"{said}: no table is there")


def namespace(
    subject: Subject,
    found: "Namespaces",
    one: tuple[str, ...],
    waiting: list[tuple[str, ...]],
) -> Iterator[Finding]:
    """That it is listed, that a table of it can be loaded, and committed to where that can be told."""
    from isotherm.iceberg.rights import may_commit

    if subject.catalog is None:
        return
    names, below = found.within(one)
    waiting[:0] = below
    subject.names += names
    yield well(f"listed: {counted(len(names), 'table')}")
    if not names:
        return
    loaded = subject.catalog.load(names[0])
    yield well(f"{names[0]} is loaded")
    may = may_commit(subject.catalog.catalog, subject.config.catalog, loaded)
    if may is None:
        yield unknown("the right to commit cannot be told for such a catalog without a commit")
    elif may:
        yield well(f"may commit to {names[0]}, as far as can be told without doing it")
    else:
        yield wrong("the file of the catalog may not be written by this user", "mend its rights")


def table(subject: Subject, name: str) -> Iterator[Finding]:
    """Load one, and hold its properties and its history against its policy. Nothing is told where all is well."""
    if subject.catalog is None:
        return
    loaded = subject.catalog.load(name)
    subject.read += 1
    location = loaded.facts.location
    scheme, mark, rest = location.partition("://")
    store = f"{scheme}://{rest.partition('/')[0]}" if mark and scheme != "file" else "of this machine"
    subject.stores.setdefault(store, loaded)
    folder = subject.policies
    resolved = None if folder is None else folder.resolve(name, loaded.facts.properties)
    if resolved is None:
        subject.unmatched.append(name)
    yield from fights(loaded, resolved, subject.config.deletions.also_under, subject.now_ms())


def tables(subject: Subject) -> Iterator[Finding]:
    """How many there are, and of which no policy speaks."""
    matched = subject.read - len(subject.unmatched)
    left = len(subject.names) - subject.read
    if not subject.names:
        yield unknown("there are none")
        return
    said = f"{subject.read:,} of {len(subject.names):,} loaded; {counted(matched, 'table')} with a policy"
    if left:
        yield wrong(said, "the others are told above, or were not asked any more")
    elif not matched:
        yield wrong(
            said, "`tables:` of a policy file names them: `isotherm policy validate`, `policy show TABLE`"
        )
    else:
        yield well(said)
    if subject.unmatched and matched:
        yield unknown(f"without a policy, so left alone: {_named(subject.unmatched)}")


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return f"{', '.join(sorted(names)[:NAMED])}{f' and {more:,} more' if more > 0 else ''}"


def store_rights(subject: Subject, store: str) -> Iterator[Finding]:
    """That a metadata.json is read and its folder listed there, and whatever else may be tried."""
    from isotherm.iceberg.rights import folder_of, listed, metadata_bytes, write_and_delete

    loaded = subject.stores[store]
    yield well(f"read: metadata.json of {loaded.table.name}, {size_text(metadata_bytes(loaded))}")
    lying = listed(loaded)
    yield well(f"listed: {folder_of(loaded)}, {counted(lying.files, 'file')}")
    ahead_ms = (lying.newest_ms or 0) - subject.now_ms()
    if SKEW_MS < ahead_ms < 2**61:
        yield wrong(
            f"its newest file was written {span_text(ahead_ms)} from now, by the store's clock",
            "set this machine's clock (NTP): while it differs nothing expires and nothing is deleted",
        )
    if not subject.is_write_test:
        yield unknown("writing and deleting was not tried: --write-test does, with a small file")
        return
    for step, skew_ms in write_and_delete(loaded, subject.now_ms):
        yield well(f"a small file was {step} in {folder_of(loaded)}")
        if skew_ms is not None:
            yield skewed("the store", skew_ms)


def clock(subject: Subject) -> Iterator[Finding]:
    """Hold this machine's clock beside the catalog's, where that tells the time (REST does)."""
    skew_ms = None if subject.catalog is None else subject.catalog.clock_skew_ms()
    if skew_ms is None:
        yield unknown("this catalog tells no time; a store does with --write-test")
    else:
        yield skewed("the catalog", skew_ms)


def skewed(whose: str, skew_ms: int) -> Finding:
    """How far this machine's clock is from another one."""
    if abs(skew_ms) <= SKEW_MS:
        return well(f"this machine's clock agrees with that of {whose}, within {span_text(SKEW_MS)}")
    side = "ahead of" if skew_ms > 0 else "behind"
    return wrong(
        f"this machine's clock is {span_text(abs(skew_ms))} {side} that of {whose}",
        "set it (NTP): while it differs nothing expires and nothing is deleted",
    )
