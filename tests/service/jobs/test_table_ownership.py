"""A broker that can be read and takes nothing: no work is begun that could not be committed."""

from collections import Counter

import pytest

from isotherm.core import observations as seen
from isotherm.core.model.outside import Outside
from isotherm.service.ports import NotAnnounced, Unavailable
from support.lab import Lab, of, settle, started, wait_for_children
from support.memory_topics import MemoryKeyedTopic

TURNS = 40
HOURS = (1, 1, 1, 2, 2, 2, 3, 3, 3, 9, 10, 11, 12)


class ReadOnlyHolds(MemoryKeyedTopic):
    """A topic of which a principal may read all, and to which it may write nothing."""

    takes = False

    def write(self, key, value):
        if not self.takes:
            raise Unavailable("not enough in-sync replicas")
        super().write(key, value)


def ends(lab):
    return Counter(str(one.outcome) for one in of(lab, seen.JobEnded))


def turn(service):
    for _ in range(TURNS):
        service.step(0)
        wait_for_children(service)


@pytest.mark.parametrize("refused", ["count", "place"])
def test_nothing_is_begun_that_could_not_be_committed(tmp_path, refused):
    """Each rewrite was thrown away at the last question, and begun again at once."""
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in HOURS:
        lab.append(table, hour)
    topic = ReadOnlyHolds(lab.held)
    service = lab.service(hold_topic=topic if refused == "count" else None)
    service.start()
    service.events.is_member = refused == "count"
    turn(service)

    assert ends(lab) == {"failed": 3}  # small ones that share a slot; and none of them again
    assert of(lab, seen.RoundPlanned)[-1].away == (Outside.CONSENT,)

    service.events.is_member = topic.takes = True
    settle(service)

    assert ends(lab)["done"] == 3
    assert of(lab, seen.RoundPlanned)[-1].away == ()
    service.stop()


def test_a_daemon_that_has_no_table_any_more_waits_for_nothing(tmp_path):
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in HOURS:
        lab.append(table, hour)
    service = started(lab)
    service.events.is_member = False
    turn(service)
    service.events.close()  # the group has given all of it to others
    turn(service)

    assert of(lab, seen.RoundPlanned)[-1].away == ()
    service.stop()


def test_a_table_is_maintained_though_nothing_of_it_can_be_announced(tmp_path):
    """Its own commit was the first that could not be announced, and the last."""
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in HOURS:
        lab.append(table, hour)
    service = started(lab)
    publish = service.events.publish

    def refuse(event):
        raise NotAnnounced("the topic takes nothing")

    service.events.publish = refuse
    settle(service)
    lab.ahead_ms += 3_600_000

    for hour in (4, 4, 4, 20, 21):
        lab.append(table, hour)
    settle(service)

    assert ends(lab) == {"done": 4}
    service.events.publish = publish
    lab.ahead_ms += 3_600_000
    settle(service)
    uuid = str(table.metadata.table_uuid)
    assert service.ledger.unannounced(uuid, service.now_ms()) == []
    service.stop()
