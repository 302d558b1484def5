"""What a plan would lead to, without doing it: the planner on its own simulated results.

The backlog (what would be rewritten if everything that is due were done now) is measured this way, so there is one
definition of work to do.
"""

import math
from dataclasses import dataclass, replace

from isotherm.core.model.decisions import Plan, Request
from isotherm.core.model.files import NO_FILES, FileStats, total
from isotherm.core.model.job_limits import MAX_JOB_BYTES, MAX_JOB_FILES
from isotherm.core.model.jobs import Action, Take
from isotherm.core.planner.file_selection import rewritten, taken
from isotherm.core.planner.plan import plan
from isotherm.core.planner.view import View
from isotherm.core.planner.whole_table import well_filled
from isotherm.core.policy.policy import Policy

MAX_ROUNDS = 10
"""A plan that is still not done after so many rounds does not converge; by law one round is enough."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Work that is due, over one table."""

    jobs: int = 0
    files: int = 0
    bytes: int = 0
    rounds: int = 0


def done(view: View, policy: Policy | None, now_ms: int) -> tuple[Backlog, View]:
    """All that is due now, done in simulation until nothing is left, and the view as it would be then."""
    work = Backlog()
    for _ in range(MAX_ROUNDS):
        planned = plan(view, policy, now_ms)
        if not planned.requests or policy is None:
            break
        found = requested(view, planned)
        work = Backlog(
            jobs=work.jobs + found.jobs,
            files=work.files + found.files,
            bytes=work.bytes + found.bytes,
            rounds=work.rounds + found.rounds,
        )
        view = after(view, planned, policy, now_ms)
    return work, view


def requested(view: View, planned: Plan) -> Backlog:
    """What a plan asks for, which is all that is due: by law nothing is once it is done. No second plan is made."""
    each = [_work(view, request) for request in planned.requests]
    found = total(each)
    jobs = sum(
        max(math.ceil(one.bytes / MAX_JOB_BYTES), math.ceil(one.files / MAX_JOB_FILES), 1) for one in each
    )
    return Backlog(jobs, found.files, found.bytes, rounds=1 if planned.requests else 0)


def after(view: View, planned: Plan, policy: Policy, now_ms: int) -> View:
    """The view as it would be, had every request of the plan been done, in as many jobs as it takes."""
    partitions, target_bytes = dict(view.partitions), int(policy.compact.target_file_size)
    for request in planned.requests:
        key = request.decision.partition
        if key is None:
            view = _done(view, request, now_ms)
        elif _all(request).output_spec_id is not None:
            del partitions[key]  # what its rows make of other partitions is not worth another job, as a rule
        else:
            partitions[key] = rewritten(partitions[key], _all(request), target_bytes)
    return replace(view, partitions=partitions)


def _done(view: View, request: Request, now_ms: int) -> View:
    """The view after work on the table as a whole. What is found in its folders is nothing that the planner sees."""
    action = request.decision.action
    view = replace(view, last_done_ms={**view.last_done_ms, action: now_ms})
    if action is Action.REWRITE_MANIFESTS:
        facts = replace(view.facts, manifests=well_filled(view.facts), needless_manifests=0)
        return replace(view, facts=facts)
    if action is not Action.EXPIRE:
        return view
    going = set(request.snapshots)
    kept = tuple(s for s in view.snapshots or () if s.snapshot_id not in going)
    ends = tuple(end for end in view.facts.ref_ends if end.over_at_ms > now_ms)
    return replace(view, snapshots=kept, facts=replace(view.facts, snapshots=len(kept), ref_ends=ends))


def _work(view: View, request: Request) -> FileStats:
    key = request.decision.partition
    return NO_FILES if key is None else taken(view.partitions[key], _all(request))


def _all(request: Request) -> Take:
    """What a request would take if one job could take it all."""
    return replace(request.decision.take or Take(), at_most_bytes=None)
