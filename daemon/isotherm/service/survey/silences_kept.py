"""How long a table, or a namespace, gave no answer, kept over a restart.

What gives no answer all day is passed over, because nobody else can read it either. A daemon that is restarted each day
would wait for ever. So the ledger keeps how long each silence has lasted. That is no proof, and shortens only the
waiting: it counts where this process has asked too, gets no answer for minutes either, and where the break between the
two processes was short. A break is not counted.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from isotherm.store.ledger import Ledger, Silence

BREAK_S = 3600.0
"""A name that was not asked for so long, beyond its pause, may have been another one meanwhile."""
AGAIN_S = 300.0
"""A process waits for so long itself, whatever the one before it has seen."""


@dataclass(slots=True)
class Silences:
    """The silences of one kind of names."""

    ledger: Ledger
    kind: str
    patience_s: float
    """After so long a name is passed over."""
    now_ms: Callable[[], int]
    _kept: dict[str, Silence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._kept = self.ledger.silences(self.kind)

    def before_s(self, name: str) -> float:
        """For how long a name, which gives no answer now for the first time, has given none to the process before."""
        known = self._kept.get(name)
        if known is None:
            return 0.0
        return min(known.lasted_s, self.patience_s - AGAIN_S) if self._is_recent(known) else 0.0

    def _is_recent(self, known: Silence) -> bool:
        break_s = (self.now_ms() - known.asked_at_ms) / 1000
        return 0 <= break_s <= known.pause_s + BREAK_S

    def keep(self, silent: Mapping[str, tuple[float, float]]) -> None:
        """Names that gave no answer again: for how long they have given none, and after what they are asked again."""
        found = {name: Silence(self.now_ms(), *values) for name, values in silent.items()}
        self._kept |= found
        self.ledger.keep_silences(self.kind, found)

    def end(self, names: Collection[str]) -> None:
        """These gave an answer, or are not there any more."""
        over = self._kept.keys() & names
        for name in over:
            del self._kept[name]
        self.ledger.end_silences(self.kind, over)

    def end_but(self, names: Collection[str], is_hidden: Callable[[str], bool] = lambda _: False) -> None:
        """Only these may still be silent, and for a while those of which the list did not say whether they are there."""
        self.end(
            [
                name
                for name in self._kept.keys() - names
                if not (is_hidden(name) and self._is_recent(self._kept[name]))
            ]
        )
