"""Programs of ours start without pandas."""

import subprocess
import sys

PROGRAM = """
from isotherm.runtime.no_pandas import with_pandas, without_pandas

without_pandas()
try:
    import pandas
except ImportError:
    print("not found")
with_pandas()
import pandas
print("found")
"""


def test_a_program_of_ours_finds_no_pandas_before_it_needs_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n") == ["not found", "found", ""]
