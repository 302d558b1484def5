"""`valid_through`: the event time that a table's stream has reached, from the data and not from the clock.

By Kafka partition a high quantile of what arrived, as a running maximum, so that one row from the year 2099 moves
nothing. Over the partitions the least, so that a fast one beside a lagging one moves nothing either; a partition
that is read to its end holds nothing back. Never decreasing, never more than `MAX_AHEAD_MS` beyond the clock.
"""

from collections.abc import Collection, Mapping

from isotherm.contract.boundary import MAX_AHEAD_MS
from isotherm_ingest.plan.topic_partition import Position


def advance(running: Mapping[Position, int], batch: Mapping[Position, int]) -> dict[Position, int]:
    """The running maximum of each partition's quantile."""
    return {
        position: max(
            batch.get(position, running.get(position, 0)), running.get(position, batch.get(position, 0))
        )
        for position in {*running, *batch}
    }


def valid_through(
    running: Mapping[Position, int], behind: Collection[Position], previous_ms: int | None, now_ms: int
) -> int | None:
    """The boundary to announce.

    Args:
        running: what each partition has reached.
        behind: partitions that are not read to their end.
        previous_ms: what the table said before.
        now_ms: the time of the commit.
    """
    if any(position not in running for position in behind):
        return previous_ms  # it lags, and nobody knows where it stands
    held_back = [running[position] for position in behind]
    reached = min(held_back) if held_back else max(running.values(), default=None)
    if reached is None:
        return previous_ms
    capped = min(reached, now_ms + MAX_AHEAD_MS)
    return capped if previous_ms is None else max(capped, previous_ms)
