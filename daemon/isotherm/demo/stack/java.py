"""Find a Java that Spark, Kafka and Debezium all run on.

JAVA_HOME wins over PATH, as it does for Spark's own scripts: two opinions about Java on one machine would be
worse than a wrong one.
"""

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from isotherm.demo.stack.errors import StackError

WORKS_WITH = (17, 21)
"""What Spark 4 is built and tested with. An older Java cannot load it, a newer one lacks what it reaches into."""
REMEDY = "install Java 17 (Debian: openjdk-17-jre-headless) or point JAVA_HOME at it"


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The `java` to use.

    Raises:
        StackError: there is none, or its version is one that Spark does not run on.
    """
    environ = os.environ if environ is None else environ
    home = environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise StackError(f"JAVA_HOME is {home}, but there is no bin/java in it: {REMEDY}")
    else:
        found = shutil.which("java", path=environ.get("PATH"))
        if found is None:
            raise StackError(f"Java 17 is needed and there is no java on the PATH: {REMEDY}")
        java = Path(found)
    version = _version(java)
    if version not in WORKS_WITH:
        raise StackError(f"Java 17 is needed, but {java} is version {version or 'unknown'}: {REMEDY}")
    return java


@functools.cache
def _version(java: Path) -> int | None:
    """The feature release: 17 for `17.0.15`, 8 for `1.8.0_412`; None if it does not say."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None
