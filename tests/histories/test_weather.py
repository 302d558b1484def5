"""Weather: random histories of a table, random fates of their events, and after each calm the state equals a full scan.

`make test` plays a few seeds, `make soak` many; a failure prints its seed, and `--seeds N..M` plays those.
"""

import random

import pytest

from support.lab import EXPIRING, Lab, believed, counted, settle

PATIENT = EXPIRING.replace("keep_last: 2, at_once: 2", "keep_last: 3, at_once: 3")


def play(folder, seed, steps):
    """One history; returns how many commits of ours there were."""
    chance = random.Random(seed)
    lab = Lab(folder, policy=PATIENT)
    table = lab.create()
    service = lab.service()
    service.start()
    uuid, hour, late = str(table.metadata.table_uuid), 1, []
    for _ in range(steps):
        hour += chance.random() < 0.4
        match chance.choices(["append", "delete", "rollback", "restart"], [12, 2, 1, 1])[0]:
            case "append":
                hours = [max(1, hour - chance.randrange(4)) for _ in range(chance.randint(1, 3))]
                event = lab.append(table, *hours, rows=chance.randint(1, 3), announce=False)
                late = deliver(lab, chance, event, late)
            case "delete":
                table.refresh().delete(f"id < {chance.randrange(lab.rows + 1)}")
            case "rollback":
                known = [s.snapshot_id for s in table.refresh().snapshots()]
                if known:
                    table.manage_snapshots().set_current_snapshot(chance.choice(known)).commit()
            case "restart":
                lab.executor.stop()  # a daemon that is killed takes its children with it
                service = lab.service()
                service.start()
        service.step(0)
        if chance.random() < 0.5:
            settle(service)

            assert counted(lab.scan()) == believed(service, uuid), f"seed {seed}"
    settle(service)

    assert counted(lab.scan()) == believed(service, uuid), f"seed {seed}"
    before = sorted(map(repr, table.refresh().scan().to_arrow().to_pylist()))
    assert len(before) == len(set(before)), f"seed {seed}: a row came twice"
    service.stop()
    return sum(one.state == "done" for one in service.ledger.operations())


def deliver(lab, chance, event, late):
    """The event comes now, later, twice, never, or as somebody else would have it; gives those that are still late."""
    match chance.choices(["now", "late", "twice", "never", "forged"], [6, 2, 1, 1, 1])[0]:
        case "now":
            lab.announce(event)
        case "late":
            return [*late, event]
        case "twice":
            lab.announce(event)
            lab.announce(event)
        case "never":
            pass
        case "forged":
            changes = chance.choice(
                [
                    {"parent_id": 17},
                    {"snapshot_id": chance.getrandbits(60)},
                    {"added_manifests": ()},
                    {"operation": "replace", "summary": {}},
                    {"sequence_number": 10**9},
                    {"timestamp_ms": 0},
                    {"valid_through_ms": 10**15, "summary": {}},
                ]
            )
            lab.announce(event.model_copy(update=changes))
    chance.shuffle(late)
    for one in late:
        lab.announce(one)
    return []


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_to_events_the_state_is_true(tmp_path, seed):
    play(tmp_path, seed, steps=15)


@pytest.mark.soak
def test_soak_of_random_histories(tmp_path, seeds):
    compactions = 0
    for seed in seeds("100..160"):
        compactions += play(tmp_path / str(seed), seed, steps=40)

    assert compactions
