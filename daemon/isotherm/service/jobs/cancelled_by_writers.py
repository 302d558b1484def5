"""Which foreign events and intents end a job that runs: those that touch its partition, and no others."""

from collections.abc import Collection

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.service.topics.events_to_state import Touched


def disturbance(
    touched: Touched,
    partitions: Collection[PartitionKey | None],
    read: PartitionKey | None,
    *,
    is_beside: bool,
) -> Refusal | None:
    """Why a job on some partitions of the touched table must end, or None where it may go on.

    An append ends no job that runs beside appends. Anything else in its table does. A partition into which rows are moved says
    nothing of the one that is read (`read`): its files stay in their partition spec.
    """
    if is_beside:
        if touched.is_append:
            return None
        why = "it ran beside writers that append, and one of them may do more by now"
        return Refusal(Reason.INTENT, why)
    if touched.partitions is None:
        # Perhaps it writes another one, so this partition is not to blame.
        return Refusal(Reason.INTENT, "a writer may write it: it did not say which partitions it writes")
    if read in touched.partitions:
        return Refusal(Reason.CANCELLED, "the stream came back to its partition while it ran")
    if any(partition in touched.partitions for partition in partitions):
        return Refusal(Reason.OUTPUT_SPEC, "somebody writes to a partition into which its rows go")
    return None
