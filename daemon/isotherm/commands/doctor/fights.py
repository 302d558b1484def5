"""What a table says of itself that its policy, or the daemon, cannot work with, or that one should know."""

from collections.abc import Iterator, Sequence

from isotherm.commands.doctor.checks import Finding, unknown, wrong
from isotherm.contract.paths import PLACES, normalised
from isotherm.core.deletion import is_gc_enabled
from isotherm.core.policy.precedence import PROPERTY, SELF_TRIMMING, Resolved
from isotherm.core.units import clock_text
from isotherm.runtime.text import printable
from isotherm.service.ports import LoadedTable

RETRIES = "commit.retry.num-retries"
LATELY_MS = 7 * 86_400_000
"""A job that rewrites comes each night, or each week; one by hand, once."""
MOST_SAID = 100
"""Characters of what an owner says."""


def fights(
    loaded: LoadedTable, resolved: Resolved | None, also_under: Sequence[str], now_ms: int
) -> Iterator[Finding]:
    """Everything of one table, the worst first; nothing where all is well.

    Args:
        loaded: the table.
        resolved: its policy, or None where it has none: then there is nothing to fight.
        also_under: folders outside of a table's own in which files may be deleted.
        now_ms: the time.
    """
    if resolved is None:
        return
    properties = loaded.facts.properties
    if properties.get(RETRIES) == "0":
        yield wrong(
            f"{RETRIES}=0: PyIceberg deletes files of a commit that has landed, where its answer is a conflict",
            f"take {RETRIES} out of the table's properties, or raise it",
        )
    if loaded.facts.rewritten_in is not None:
        yield _rewriters(loaded, now_ms)
    yield from _elsewhere(loaded, also_under)
    if loaded.facts.unsupported:
        yield unknown(f"nothing of it can be compacted by this version: {loaded.facts.unsupported}")
    if not is_gc_enabled(properties):
        yield unknown(
            "gc.enabled=false: nothing of it expires or is deleted, whatever the policy says",
            "take it out of the table's properties, if its files are its own",
        )
    elif properties.get(SELF_TRIMMING, "").lower() == "true":
        yield unknown(f"{SELF_TRIMMING}=true: its writers remove old metadata, the daemon does not")
    for note in resolved.notes:
        yield unknown(note)
    for field, origin in resolved.origins.items():
        if origin.startswith(PROPERTY) and origin.endswith("is no number"):
            yield wrong(f"{field} is off: {origin.removeprefix(f'{PROPERTY} ')}", "mend the table's property")


def _rewriters(loaded: LoadedTable, now_ms: int) -> Finding:
    snapshot = loaded.snapshots.get(loaded.facts.rewritten_in or 0)
    who = loaded.facts.rewritten_by or "somebody else"
    if snapshot is None or now_ms - snapshot.committed_at_ms > LATELY_MS:
        return unknown(f"{who} has rewritten its files too, though not in the last days")
    return wrong(
        f"{who} rewrites its files too, last at {clock_text(snapshot.committed_at_ms)}",
        "let one of the two do it: stop the other job, or say compact: {enabled: false} in its policy",
    )


def _elsewhere(loaded: LoadedTable, also_under: Sequence[str]) -> Iterator[Finding]:
    """Folders outside of its location: what expires there is deleted only where the configuration allows it."""
    home = normalised(loaded.facts.location).rstrip("/") + "/"
    for name in PLACES:
        said = loaded.facts.properties.get(name, "")
        place = normalised(said).rstrip("/") + "/"
        if not said or place.startswith(home):
            continue
        is_allowed = any(place.startswith(normalised(one).rstrip("/") + "/") for one in also_under)
        is_pattern = any("{" in one for one in also_under)
        if not is_allowed and not is_pattern:
            shown = printable(said[:MOST_SAID])
            yield wrong(
                f"{name} is {shown}, outside of its location: files of expired snapshots stay there",
                "name that folder under deletions.also_under in isotherm.yaml, if they may go",
            )
