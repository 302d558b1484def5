"""Everything that happens which somebody may want to know: one frozen value each.

The service emits them; `logs.py` and `metrics.py` translate. The name of the class is the stable name of the event.
"""

from isotherm.core.observations.of_events import (
    EventApplied,
    EventRejected,
    EventSeen,
    EventsLost,
    Heard,
    HoldRejected,
    OfEvents,
    ReaderRejected,
    Reported,
    ScansReported,
    SourceHeard,
)
from isotherm.core.observations.of_rounds import (
    LedgerLost,
    OfRounds,
    PoliciesLoaded,
    RoundPlanned,
    TrySoon,
)
from isotherm.core.observations.of_tables import (
    GapHealed,
    HoldChanged,
    OfTables,
    PartitionsRecounted,
    StateDrifted,
    TableFailed,
    TableGone,
    TableHalted,
    TableMoved,
    TablePlanned,
    TableRecovered,
    TableRefused,
    TableScanned,
)
from isotherm.core.observations.of_windows import (
    OfWindows,
    WindowAsked,
    WindowEnd,
    WindowEnded,
)
from isotherm.core.observations.of_work import (
    FilesDeleted,
    FilesRestored,
    FolderSearched,
    JobEnded,
    JobGoesOn,
    JobStarted,
    OfWork,
    QuarantineCounted,
    RewritesRun,
    SnapshotsExpired,
)

Observation = OfEvents | OfTables | OfWork | OfWindows | OfRounds

__all__ = [
    "EventApplied",
    "EventRejected",
    "EventSeen",
    "EventsLost",
    "FilesDeleted",
    "FilesRestored",
    "FolderSearched",
    "GapHealed",
    "Heard",
    "HoldChanged",
    "HoldRejected",
    "JobEnded",
    "JobGoesOn",
    "JobStarted",
    "LedgerLost",
    "Observation",
    "PartitionsRecounted",
    "PoliciesLoaded",
    "QuarantineCounted",
    "ReaderRejected",
    "Reported",
    "RewritesRun",
    "RoundPlanned",
    "ScansReported",
    "SnapshotsExpired",
    "SourceHeard",
    "StateDrifted",
    "TableFailed",
    "TableGone",
    "TableHalted",
    "TableMoved",
    "TablePlanned",
    "TableRecovered",
    "TableRefused",
    "TableScanned",
    "TrySoon",
    "WindowAsked",
    "WindowEnd",
    "WindowEnded",
]
