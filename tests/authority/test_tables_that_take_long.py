"""A table that takes long to count or to read gets a share of the time, and the others get theirs."""

from isotherm.core import observations as seen
from support.lab import believed, counted, of, uuid_of


def taking_long(lab, catalog, began):
    """Each step of counting shop.aaa takes minutes. How often that begins is noted."""
    real = catalog.scan

    def scan(loaded, go_on):
        if loaded.table.name != "shop.aaa":
            return real(loaded, go_on)
        began.append(lab.ahead_ms)

        def later():
            lab.ahead_ms += 200_000
            go_on()

        return real(loaded, later)

    catalog.scan = scan


def test_a_table_that_takes_too_long_to_count_is_set_aside_and_the_loop_counts_as_alive(lab):
    tables = [lab.create(f"shop.{name}") for name in ("aaa", "bbb")]
    lab.append(tables[0], 1)
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(tables[1], hour)
    service, began, alive = lab.service(), list[int](), list[bool]()
    taking_long(lab, service.catalog, began)
    service.start()
    for _ in range(240):
        service.step(0)
        alive.append(service.health.is_alive(lab.monotonic_s()))
        lab.ahead_ms += 30_000

    failed = [one for one in of(lab, seen.TableFailed) if one.name == "shop.aaa"]
    assert {one.name for one in of(lab, seen.TableFailed)} == {"shop.aaa"}
    assert "hold so much that they were not counted within 300 s" in failed[0].error
    assert "it is read again in" in failed[1].error
    assert [one.table.name for one in of(lab, seen.JobEnded)] == ["shop.bbb"]
    assert all(alive)
    # Two hours, of which each count takes five minutes.
    assert 2 <= len(began) <= 3
    service.stop()


def test_commits_that_take_long_to_read_get_a_tenth_of_the_time_and_are_all_seen(lab):
    table = lab.create()
    lab.append(table, 1)
    service = lab.settled()
    real, began = service.catalog.changes, []

    def changes(loaded, missing, go_on):
        lab.ahead_ms += 100_000 if missing else 0
        began.extend([1] if missing else [])
        return real(loaded, missing, go_on)

    service.catalog.changes = changes
    began_ms = lab.ahead_ms
    while lab.ahead_ms - began_ms < 4_000_000:
        lab.append(table, 1, announce=False)
        service.follower.suspects.add("shop.orders")
        service.round()
        lab.ahead_ms += 30_000

    assert 3 <= len(began) <= 5
    lab.ahead_ms += 2_000_000
    service.round()
    assert believed(service, uuid_of(table)) == counted(lab.scan())
    assert service.fold.table(uuid_of(table)).is_trusted
    assert of(lab, seen.TableFailed) == []
    service.stop()
