"""The names under which tables were seen, beside a plain dictionary, in memory and in the ledger."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from isotherm.service.tables.seen_names import TWICE_S, SeenNames
from isotherm.store import Ledger

NAMES, UUIDS = st.sampled_from("abcd"), st.sampled_from("uvw")
PAIRS = st.dictionaries(NAMES, UUIDS, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("keep"), PAIRS),
    st.tuples(st.just("others"), PAIRS),
    st.tuples(st.just("of"), st.tuples(UUIDS, st.sets(NAMES, max_size=2))),
    st.tuples(st.just("list"), st.sets(NAMES)),
    st.tuples(st.just("restart"), st.none()),
)


@given(st.lists(STEPS, max_size=25))
def test_they_are_what_a_plain_dictionary_says(steps):
    ledger, plain, away = Ledger(None), {}, {}
    seen, now_s = SeenNames(ledger), 0.0
    for what, how in steps:
        now_s += TWICE_S / 2
        match what:
            case "keep":
                away = {
                    name: at_s
                    for name, at_s in away.items()
                    if plain.get(name) == how.get(name, plain.get(name))
                }
                plain |= how
                seen.keep(how)
            case "others":
                looked = SimpleNamespace(
                    found={name: SimpleNamespace(uuid=uuid) for name, uuid in how.items()}
                )
                plain = {name: uuid for name, uuid in plain.items() if how.get(name, uuid) == uuid}
                seen.end_others(looked)
            case "of":
                uuid, names = how
                plain = {
                    name: theirs for name, theirs in plain.items() if theirs != uuid or name not in names
                }
                seen.end_of(uuid, names)
            case "list":
                gone = {name for name in plain if name not in how} if how else set()
                away = {name: away.get(name, now_s) for name in gone}
                plain = {
                    name: uuid
                    for name, uuid in plain.items()
                    if name not in away or now_s - away[name] < TWICE_S
                }
                seen.end_but(how, lambda _: False, now_s)
            case "restart":
                seen, away = SeenNames(ledger), {}
        away = {name: at_s for name, at_s in away.items() if name in plain}
        assert ledger.seen_names() == plain
        assert {uuid: sorted(seen.of(uuid)) for uuid in "uvw"} == {
            uuid: sorted(name for name, theirs in plain.items() if theirs == uuid) for uuid in "uvw"
        }
