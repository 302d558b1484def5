"""Each partition is held against every intent and window: what one verdict costs does not depend on what they name."""

from isotherm.contract.events import Intent, OpenWindow
from isotherm.core.model.decisions import Verdict
from isotherm.core.model.writers import Word
from isotherm.core.planner.plan import plan
from isotherm.core.policy.policy import Policy
from support.builders import HOUR, NOW, TABLE, key, partition, view


class Counted(str):
    """A partition's key that counts what it is compared with."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_partition_is_looked_up_among_those_that_are_named_and_not_searched_for():
    named = tuple(key(100_000 + number) for number in range(2000))
    meant = Intent(
        table_uuid=TABLE.uuid,
        table=TABLE.name,
        intent_id="merge",
        writer="w",
        state="open",
        at_ms=NOW,
        expires_at_ms=NOW + HOUR,
        partitions=(*named, key(1)),
    )
    word = Word("w", NOW, OpenWindow(partitions=(*named, key(2))))
    parts = {Counted(key(number)): partition(100) for number in range(50)}
    before = Counted.compared
    decided = plan(view(parts, intents=[meant], words=[word]), Policy(), NOW)

    hot = {one.partition: one.why for one in decided.of_partitions if one.verdict is Verdict.HOT}
    assert "means to write this partition" in hot[key(1)]
    assert "has rows for it in flight" in hot[key(2)]
    assert Counted.compared - before < 20 * len(parts)


def test_an_intent_of_a_writer_whose_clock_is_ahead_has_just_been_told():
    meant = Intent(
        table_uuid=TABLE.uuid, table=TABLE.name, intent_id="merge", writer="w", state="open",
        at_ms=NOW + 5000, expires_at_ms=NOW + HOUR, partitions=None,
    )  # fmt: skip
    (decided,) = plan(view({key(1): partition(100)}, intents=[meant]), Policy(), NOW).of_partitions

    assert "intent of 0s ago, holds 1h more" in decided.why
