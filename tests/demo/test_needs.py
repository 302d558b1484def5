"""What is missing is said in one line, before anything is started."""

import os
import subprocess
import sys

from isotherm.demo.needs import MODULES, lacking


def test_a_module_that_is_not_installed_is_named_with_where_to_get_it(tmp_path):
    text = lacking(tmp_path, ("json", "no_such_module_at_all"))

    assert text.startswith("no_such_module_at_all not installed: pip install 'isotherm[demo]'")


def test_without_a_checkout_it_says_so(tmp_path):
    assert "needs a checkout" in lacking(tmp_path / "jars")


def test_what_is_here_is_enough(tmp_path):
    assert lacking(tmp_path, MODULES) is None


def test_nothing_is_started_where_there_is_no_java(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "isotherm.cli", "demo"],
        cwd=tmp_path,
        env=os.environ | {"JAVA_HOME": str(tmp_path / "nowhere")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "install Java 17" in ended.stderr
    assert list(tmp_path.iterdir()) == []
