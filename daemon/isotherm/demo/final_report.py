"""Makes the report once every process rests: the referee's last comparison, the verdicts, and the counters of each process."""

from collections.abc import Iterable

from isotherm.audit.evidence import Judgement, Promise
from isotherm.contract.summary import Origin
from isotherm.demo.maintainer import Maintainer
from isotherm.demo.report import Report, promises, quantiles, table_report
from isotherm.demo.stage import Stage
from isotherm.runtime.exit_codes import EXIT_TAKEN_OVER


def make_report(stage: Stage, startup_s: float) -> Report:
    """Judge the run."""
    witness, logbook = stage.witness, stage.logbook
    compared = stage.referee.compare(with_scan=True)
    judged = stage.referee.judge(compared, stage.accounted, logbook.recomputed, logbook.failed)
    by_daemon = stage.maintainer is Maintainer.ISOTHERM
    of = [one for one in Promise if by_daemon or one is not Promise.NOTHING_UNSEEN]
    holds, evidence = promises(judged, _troubles(stage, compared), of)
    tables = tuple(
        table_report(
            seen,
            compared.get(name),
            witness.announced.get(seen.uuid, {}),
            stage.files_read.get(name, (0, 0)),
        )
        for name, seen in sorted(witness.tables.items())
    )
    return Report(
        seed=stage.seed,
        maintained_by=str(stage.maintainer),
        promises=holds,
        evidence=evidence,
        tables=tables,
        latency_s={
            "change_to_readable": quantiles(ms / 1000 for ms in witness.latencies_ms),
            "commit_to_decision": quantiles(_decision_latencies_s(stage)),
            "commit": quantiles(logbook.commits_s),
        },
        merges_recomputed=_count(judged.values(), "merges_recomputed"),
        merges_recomputed_by_maintenance=_count(judged.values(), "because_of_us"),
        appends_repeated=logbook.times("ingest", "append_repeated"),
        batches_failed=sum(map(len, logbook.failed.values())),
        bytes_ingested=sum(seen.bytes_ingested for seen in witness.tables.values()),
        bytes_rewritten=sum(seen.bytes_rewritten for seen in witness.tables.values()),
        read_s=stage.read_s,
        snapshots_expired=sum(table.snapshots_expired for table in tables),
        files_deleted=_files_deleted(stage),
        hot_partitions_touched=_count(judged.values(), "hot_partitions_touched"),
        partitions_compacted=sum(table.partitions_compacted for table in tables),
        rows_written=stage.workload.rows,
        seconds=round(stage.elapsed_s, 1),
        startup_seconds=round(startup_s, 1),
        peak_memory_mb=stage.memory.peaks,
        kills=tuple(f"{kill.target} at {kill.at_s:.0f} s" for kill in stage.chaos.kills)
        if stage.chaos
        else (),
        restarts=stage.programs.restarts,
        keys_moved=stage.workload.keys_moved,
        truncates=stage.workload.truncates,
        altered=tuple(one.what for one in stage.workload.altered),
        drivers_fenced=len(stage.programs.fenced),
        jobs=_jobs(stage) | logbook.procedures,
        full_scans=logbook.full_scans,
        complaints=tuple(logbook.complaints[-20:]),
    )


def _troubles(stage: Stage, compared: Iterable[str]) -> list[str]:
    """What speaks against every promise, because something was not seen, or ended as it should not."""
    troubles = [f"the witness has not seen everything: {stage.witness.error}"] if stage.witness.error else []
    troubles += [
        f"a driver of ingest that was to be fenced ended with {code}"
        for code in stage.programs.fenced
        if code != EXIT_TAKEN_OVER
    ]
    if stage.programs.second is not None:
        troubles.append("two drivers of ingest run, and none was fenced")
    troubles += [
        f"{name}: no such table in the lake" for name in compared if name not in stage.witness.tables
    ]
    return troubles


def _count(judged: Iterable[tuple[Judgement, ...]], name: str) -> int:
    return sum(one.counts.get(name, 0) for table in judged for one in table)


def _decision_latencies_s(stage: Stage) -> list[float]:
    """From the commit of somebody else to the verdicts on what it touched, as the daemon's ledger has it."""
    ledger = stage.ledger()
    if ledger is None:
        return []
    try:
        return [
            (account.decided_at_ms - account.committed_at_ms) / 1000
            for seen in stage.witness.tables.values()
            for account in ledger.accounts(seen.uuid)
            if account.decided_at_ms is not None and account.origin in (Origin.INGEST, Origin.FOREIGN)
        ]
    finally:
        ledger.close()


def _files_deleted(stage: Stage) -> int:
    ledger = stage.ledger()
    if ledger is None:
        return 0
    try:
        return sum(ledger.deletions(seen.uuid).get("deleted", 0) for seen in stage.witness.tables.values())
    finally:
        ledger.close()


def _jobs(stage: Stage) -> dict[str, int]:
    """How many operations came to which end, by the ledger."""
    ledger = stage.ledger()
    if ledger is None:
        return {}
    try:
        counts: dict[str, int] = {}
        for operation in ledger.operations(limit=100_000):
            name = f"{operation.action} {operation.state}"
            if operation.state == "failed":
                name = f"{name} ({operation.reason})"
            counts[name] = counts.get(name, 0) + 1
        return counts
    finally:
        ledger.close()
