"""Resolve the jar lists anew and write their locks: `make lock`."""  # noqa: INP001 (a script)

import sys

from isotherm.demo.stack.jars import LISTS, lock

lock(sys.argv[1:] or LISTS)
