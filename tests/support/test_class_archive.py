"""Drivers of the tests start from an archive of their classes; to any other JVM it makes no difference."""

import os
import shlex
import subprocess

import pytest

from isotherm.demo.stack import find_java
from support.class_archive import OPTIONS_OF_DRIVERS

pytestmark = pytest.mark.spark


def test_a_driver_starts_from_the_archive(spark):
    java = spark.sparkContext._jvm.java.lang
    given = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()

    assert [one for one in given if one.startswith("-XX:SharedArchiveFile=")]


def test_a_jvm_with_other_classes_starts_without_it_and_says_nothing_of_it(spark_jars, tmp_path):
    options = shlex.split(os.environ[OPTIONS_OF_DRIVERS])
    command = [find_java(), *options, "-cp", tmp_path, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert answer.stdout == ""
    assert "archive" not in answer.stderr
    assert answer.stderr.count("\n") == 3
