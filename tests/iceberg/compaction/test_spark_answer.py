"""What is believed of the answers of a cluster: what a rewrite of the job could have said, and nothing else."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from isotherm.contract.identity import PartitionKey
from isotherm.core.model.jobs import CompactionJob, Rewrite
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.rewrite import attempt
from isotherm.iceberg.compaction.spark_answer import MOST_ANSWER_BYTES, answer_of, answered
from isotherm.parquet.table_description import described
from support.one_partition import NAME


@pytest.fixture
def description(catalog: Any) -> str:
    return described(catalog.load_table(NAME).metadata)


@pytest.fixture
def rewrite(catalog: Any, job: CompactionJob, description: str) -> Rewrite:
    found = attempt(job, description, catalog.properties)
    assert isinstance(found, Rewrite)
    return found


@pytest.mark.parametrize(
    "answer",
    [
        pickle.dumps({"a": 1}),
        b"nonsense",
        b"[]",
        b"{}",
        b'{"refusal": {"reason": "so", "why": "so"}}',
        b'{"rewrite": {"files": []}}',
        b"[" * 100_000,
        b'{"refusal": {"reason": "hot", "why": "so"}}' + b" " * MOST_ANSWER_BYTES,
    ],
    ids=["a pickle", "nonsense", "a list", "nothing", "no reason", "a part", "too deep", "too long"],
)
def test_an_answer_is_a_value_or_nothing(answer: bytes, job: CompactionJob, description: str) -> None:
    with pytest.raises(ValueError, match="a task answered with"):
        answered(answer, job, description)


def test_a_rewrite_comes_back_as_it_was_with_all_types(
    job: CompactionJob, rewrite: Rewrite, description: str
) -> None:
    assert answered(answer_of(rewrite), job, description) == rewrite


def test_why_there_is_none_is_text_that_can_be_written_down(job: CompactionJob, description: str) -> None:
    refused = Refusal(Reason.MISSING_FILE, "a file")
    assert answered(answer_of(refused), job, description) == refused

    odd = answered(b'{"refusal": {"reason": "missing_file", "why": "a \\ud800 file"}}', job, description)
    assert isinstance(odd, Refusal)
    assert odd.why == "a ? file"


def of_file(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda told: told["files"][0].update(changes)


def of_all(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda told: told.update(changes)


def one_more(told: dict[str, Any]) -> None:
    told["files"].append(told["files"][0] | {"path": f"{told['files'][0]['path']}.not-ours"})


LIES = {
    "a number that is none": of_all(rows_written="many"),
    "another job's": of_all(job_id="another"),
    "another schema": of_all(schema_id=7),
    "other names": of_all(name_mapping="[]"),
    "another order": of_all(sort_order_id=3),
    "ids of rows": of_all(has_row_ids=True),
    "deleted rows": of_all(rows_deleted=60),
    "a negative count": of_all(bytes_read=-1),
    "a count beyond all": of_all(rows_read=2**63),
    "a hash beyond all": of_all(hash_read=2**128),
    "no time": of_all(seconds=float("nan")),
    "endless": of_all(seconds=float("inf")),
    "one file more": one_more,
    "another's file": of_file(path="file:///etc/passwd"),
    "a negative size": of_file(size_bytes=-1),
    "a negative statistic": of_file(value_counts={"1": -1}),
    "a column that is not there": of_file(null_value_counts={"77": 1}),
    "a column beyond all": of_file(lower_bounds={str(2**40): "00"}),
    "bounds of another type": of_file(lower_bounds={"1": "00"}),
    "bounds that are no text": of_file(upper_bounds={"2": "ff"}),
    "splits backwards": of_file(split_offsets=[9, 4]),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=list(LIES))
def test_what_no_rewrite_of_the_job_would_say_is_not_believed(
    job: CompactionJob, rewrite: Rewrite, description: str, lie: Callable[[dict[str, Any]], None]
) -> None:
    told = json.loads(answer_of(rewrite))
    lie(told["rewrite"])

    with pytest.raises(ValueError, match="a task answered with something else"):
        answered(json.dumps(told).encode(), job, description)


def test_files_of_other_partitions_are_none_of_the_job_s(
    job: CompactionJob, rewrite: Rewrite, description: str
) -> None:
    """Nobody moves what is only compacted; what is moved lies where it was cold."""
    (file,) = rewrite.files
    elsewhere = replace(rewrite, files=(replace(file, partition=PartitionKey('{"1001":7}')),))
    moving = replace(job, output_spec_id=1, outputs=(PartitionKey('{"1001":6}'),))

    for one, found in ((job, elsewhere), (moving, elsewhere), (moving, rewrite)):
        with pytest.raises(ValueError, match="files of other partitions"):
            answered(answer_of(found), one, description)
    there = replace(moving, outputs=(PartitionKey('{"1001":7}'),))
    assert answered(answer_of(elsewhere), there, description) == elsewhere
