"""What a person tells the daemons: pause a table, let it go on.

Orders are written to the topic that every daemon reads before it begins or commits anything, so it does not matter
which of them maintains the table, or whether any runs. They take effect within a planning round.
"""

from pathlib import Path

from rich.text import Text

from isotherm.commands.terminal import out, plain_errors, span_option_ms
from isotherm.core.units import span_text
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import load_config


def pause_table(table: str, for_: str | None, why: str, config: Path) -> None:
    """Leave a table alone, for a time or until `resume`; whichever daemon maintains it."""
    for_ms = span_option_ms(for_, "--for")
    with plain_errors(config):
        loaded = load_config(config)
        from isotherm.commands.hold_orders import Orders

        at_ms = now_ms()
        Orders(loaded).pause(table, why, at_ms, None if for_ms is None else at_ms + for_ms)
        until = "until `isotherm resume`" if for_ms is None else f"for {span_text(for_ms)}"
        out.print(f"{table} is paused {until}; daemons heed it from their next planning round on")


def resume_tables(table: str | None, config: Path) -> None:
    """Lift whatever holds a table back: a halt, a pause, quarantines. Look at `explain` before."""
    with plain_errors(config):
        loaded = load_config(config)
        from isotherm.commands.hold_orders import Orders

        lifted = Orders(loaded).resume(table)
        for hold in lifted:
            what = ": ".join(part for part in (hold.partition, hold.why) if part)
            out.print(Text(f"{hold.kind} lifted: {what}"))
        if not lifted:
            out.print("nothing is held back")
