"""Checks of Kafka: the brokers, each topic and group that the daemon needs, and what it may do there."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from isotherm.commands.doctor.checks import Check, Finding, unknown, well, wrong
from isotherm.commands.doctor.subject import Subject
from isotherm.core.clock_check import SKEW_MS
from isotherm.core.units import span_text
from isotherm.runtime.config import KafkaConfig
from isotherm.runtime.text import counted

if TYPE_CHECKING:
    from isotherm.kafka.broker_look import BrokerLook, Topic

LEAST_RETENTION_MS = 24 * 3_600_000
"""Of the control topic: a daemon that was away for longer looks at every table instead of reading events."""
BROKERS = "kafka.properties.bootstrap.servers says where they are: can this machine reach them?"


class Needed(NamedTuple):
    """A topic that the daemon needs."""

    topic: str
    purpose: str
    rights: tuple[str, ...]
    keeps: str
    """What its `cleanup.policy` must have."""
    is_made: bool = True
    """The daemon makes it where it is missing."""


def needed(kafka: KafkaConfig) -> Iterator[Needed]:
    """Each of them, as the daemon uses it."""
    yield Needed(kafka.control_topic, "commit events and intents", ("read", "write"), "delete")
    yield Needed(kafka.hold_topic, "halts and pauses", ("read", "write"), "compact")
    yield Needed(kafka.reader_topic, "readers that expiry waits for", ("read",), "compact")
    for source in kafka.sources:
        yield Needed(source.topic, "events of another system", ("read",), "", is_made=False)
    if kafka.dead_letter_topic is not None:
        yield Needed(kafka.dead_letter_topic, "messages that nobody can read", ("write",), "")


def checks(subject: Subject) -> Iterator[Check]:
    """All of them; where no broker answers, the first alone."""
    kafka = subject.config.kafka
    looks: list[BrokerLook] = []
    made: list[bool | None] = []
    yield Check("brokers", lambda: brokers(kafka, looks, made), BROKERS)
    if not made:
        return
    look, may_make = looks[0], made[0]
    for one in needed(kafka):
        yield Check(
            f"topic {one.topic}",
            lambda one=one: topic(look, one, may_make, subject.now_ms),  # type: ignore[misc]
            f"grant this principal Describe, {', '.join(map(str.capitalize, one.rights))} on the topic",
        )
    groups = [kafka.group, *([f"{kafka.group}.sources"] if kafka.sources else [])]
    for name in groups:
        yield Check(
            f"group {name}",
            lambda name=name: group(look, name),  # type: ignore[misc]
            f"grant this principal Read on the group {name}",
        )


def brokers(kafka: KafkaConfig, looks: list["BrokerLook"], made: list[bool | None]) -> Iterator[Finding]:
    """That one answers. `made` is told whether topics may be made; None: the brokers do not say."""
    from isotherm.kafka.broker_look import BrokerLook

    looks.append(BrokerLook(kafka.properties))
    found = looks[0].brokers()
    made.append(None if found.may is None else "create" in found.may)
    yield well(f"{counted(len(found.brokers), 'broker')}: {', '.join(found.brokers[:5])}")


def topic(
    look: "BrokerLook", one: Needed, may_make: bool | None, now_ms: Callable[[], int]
) -> Iterator[Finding]:
    """That it is there, keeps what it should, and may be read and written."""
    found = look.topic(one.topic)
    if found is None:
        yield _missing(one, may_make)
        return
    said = f"{one.purpose}: {counted(found.partitions, 'partition')}, {_copies(found)}{_kept(found)}"
    if found.without_leader:
        yield wrong(f"{said}; {found.without_leader} without a leader", "a broker is away")
        return
    yield well(said)
    yield from _keeping(one, found)
    yield _rights(one.rights, found.may, f"topic {one.topic}")
    if "read" in one.rights:
        yield from _held_back(look, one, found.partitions)
    if one.purpose.startswith("commit events"):
        yield from _newest(look, one, found.partitions, now_ms)


def _missing(one: Needed, may_make: bool | None) -> Finding:
    said = f"{one.purpose}: it is not there"
    if not one.is_made:
        return wrong(said, "kafka.sources names the topic of the other system: is the name right?")
    if may_make is False:
        return wrong(
            f"{said}, and this principal may not make topics", "make it, or grant Create on the cluster"
        )
    if may_make is None:
        return unknown(f"{said}: the daemon makes it, if it may (the brokers do not say)")
    return unknown(f"{said}: the daemon makes it at its start")


def _copies(found: "Topic") -> str:
    return f"{counted(found.copies, 'copy').replace('copys', 'copies')} of each"


def _kept(found: "Topic") -> str:
    if not found.config:
        return ", configuration not shown to us"
    if "compact" in found.config.get("cleanup.policy", ""):
        return ", compacted"
    retention = found.config.get("retention.ms", "")
    return f", kept for {span_text(int(retention))}" if retention.isdecimal() else ", kept for ever"


def _keeping(one: Needed, found: "Topic") -> Iterator[Finding]:
    """That what is written to it stays for as long as it is needed, and no longer."""
    policy, retention = found.config.get("cleanup.policy", ""), found.config.get("retention.ms", "")
    if one.keeps and policy and policy != one.keeps:
        why = (
            "events of one table have one key, so all but the last are lost"
            if one.keeps == "delete"
            else "a halt is gone once it is old"
        )
        yield wrong(f"cleanup.policy is {policy}: {why}", f"set cleanup.policy={one.keeps}")
    elif one.keeps == "delete" and retention.isdecimal() and int(retention) < LEAST_RETENTION_MS:
        yield wrong(
            f"retention.ms is {retention}: a daemon that is away for longer must look at every table",
            "set retention.ms=604800000 (7 days)",
        )


def _rights(wanted: tuple[str, ...], may: frozenset[str] | None, what: str) -> Finding:
    if may is None:
        return unknown(f"the brokers do not say what this principal may do to {what}")
    lacking = [one.capitalize() for one in wanted if one not in may and "all" not in may]
    if lacking:
        names = " and ".join(lacking)
        return wrong(f"this principal has no right to {names.lower()}", f"grant {names} on {what}")
    return well(f"may {' and '.join(wanted)}")


def _held_back(look: "BrokerLook", one: Needed, partitions: int) -> Iterator[Finding]:
    """Messages behind an open transaction: the daemon reads them, others may not."""
    behind = look.held_back(one.topic, partitions)
    if behind:
        where = ", ".join(map(str, sorted(behind)))
        yield wrong(
            f"an open transaction holds back {counted(sum(behind.values()), 'message')} (partition {where}) from readers of committed messages",
            "find its producer with kafka-transactions.sh find-hanging, and end it; the daemon itself reads on",
        )


def _newest(look: "BrokerLook", one: Needed, partitions: int, now_ms: Callable[[], int]) -> Iterator[Finding]:
    """Kafka tells no time; but no message can come from the future."""
    at_ms = look.newest_ms(one.topic, partitions)
    if at_ms is None:
        yield unknown("nothing was written to it yet")
        return
    ago_ms = now_ms() - at_ms
    if ago_ms < -SKEW_MS:
        yield wrong(
            f"its newest message is of {span_text(-ago_ms)} from now: this machine's clock, or a writer's, is wrong",
            "set the clocks (NTP) here and where the writers and the brokers run",
        )
    else:
        yield well(f"its newest message is {span_text(max(ago_ms, 0))} old; Kafka tells no other time")


def group(look: "BrokerLook", name: str) -> Iterator[Finding]:
    """That it may be joined, and who is in it."""
    members, may = look.group(name)
    yield well(f"{counted(members, 'member')}{' (a daemon runs)' if members else ''}")
    yield _rights(("read",), may, f"group {name}")
