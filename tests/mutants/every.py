"""The list of mutants."""

from itertools import chain

from mutants import (
    of_clean_metadata,
    of_columns,
    of_commits,
    of_compactions,
    of_counts,
    of_deletion,
    of_edges,
    of_events,
    of_executors,
    of_expiry,
    of_holds,
    of_ingest,
    of_ingest_commands,
    of_manifest_rewrites,
    of_manifests,
    of_minor,
    of_moving,
    of_parts,
    of_passing,
    of_policies,
    of_progress,
    of_proofs,
    of_quarantine,
    of_reachability,
    of_rewrites,
    of_searches,
    of_service,
    of_shared_commits,
    of_survey,
    of_windows,
)

MUTANTS = tuple(
    chain.from_iterable(
        part.MUTANTS
        for part in (
            of_deletion,
            of_searches,
            of_quarantine,
            of_expiry,
            of_clean_metadata,
            of_reachability,
            of_commits,
            of_shared_commits,
            of_manifests,
            of_manifest_rewrites,
            of_proofs,
            of_service,
            of_policies,
            of_holds,
            of_compactions,
            of_executors,
            of_survey,
            of_events,
            of_counts,
            of_edges,
            of_rewrites,
            of_minor,
            of_moving,
            of_parts,
            of_progress,
            of_passing,
            of_ingest,
            of_columns,
            of_ingest_commands,
            of_windows,
        )
    )
)
