"""What was last announced of each table, as the compacted topic of it says."""

import json
from collections.abc import Mapping

from isotherm.runtime import logs
from isotherm_ingest.announce.heartbeat import BEATS
from isotherm_ingest.announce.pending import Watermark


def recalled(
    newest: Mapping[bytes | None, bytes | None], topic: str, pipeline: str
) -> dict[str, tuple[str, Watermark]]:
    """By uuid, the name and the last announced snapshot of each table of a pipeline; that was written last comes last.

    Args:
        newest: the newest value of each key of the topic.
        topic: its name, for the log.
        pipeline: whose; several may share the topic.
    """
    found: dict[str, tuple[str, Watermark]] = {}
    for key, value in newest.items():
        if key is None or value is None or key.startswith(BEATS):
            continue
        uuid = key.decode(errors="replace")
        try:
            data = json.loads(value)
            watermark = Watermark(int(data["snapshot_id"]), int(data["sequence_number"]))
            of, name = str(data["pipeline"]), str(data.get("table", ""))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as err:
            logs.get().warning("watermark_unreadable", topic=topic, table_uuid=uuid, error=str(err))
            continue
        if of == pipeline:
            found[uuid] = name, watermark
    return found
