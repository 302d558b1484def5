"""A process may have as many files open as the system lets it."""

import resource
import subprocess
import sys

RAISED = """
import resource
from isotherm.runtime import open_files
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
print(open_files.raise_limit(), open_files.limit())
"""


def test_the_soft_limit_is_raised_to_the_hard_one():
    said = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True).stdout
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    assert said.split() == [str(hard), str(hard)]
