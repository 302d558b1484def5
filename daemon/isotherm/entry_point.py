"""The first lines of `isotherm`, before anything that takes long is imported.

The first process of a container has no default for SIGTERM: what comes before there is a handler is lost, and the
container is killed when its time is up. Nothing has begun here, so there is nothing to put in order.
"""

import os
import signal
import sys


def main() -> None:
    """Run the command line; whoever has something to put in order brings a handler of its own."""
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    if "run" in sys.argv:
        # What lies there now, not what lies there once everything is imported: an upgrade may come in between.
        try:
            import isotherm.runtime.code_on_disk  # noqa: F401
        except ImportError as err:
            sys.exit(str(err))
    from isotherm.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
