"""What keeps a table's rows from being rewritten, as its metadata tells."""

from isotherm.contract.identity import TableId, partition_key
from isotherm.core.model.jobs import Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.compaction.binding import bind
from isotherm.iceberg.unsupported import unsupported
from support.lab import START, Lab

NAME = "write.metadata.previous-versions-max"


def test_a_table_that_nobody_can_commit_to_is_bound_to_no_job_and_says_why(tmp_path):
    """PyIceberg reads this property with each commit. Jobs ended as such whose end is not known, and left their files."""
    lab = Lab(tmp_path)
    table = lab.create()
    for _ in range(4):
        lab.append(table, 1)
    metadata = table.refresh().metadata
    spoiled = metadata.model_copy(update={"properties": {**metadata.properties, NAME: "many"}})

    said = (
        f"the table's property {NAME} is 'many', which is no number, though whoever commits reads it: mend it"
    )
    assert (unsupported(metadata), unsupported(spoiled)) == ("", said)
    refused = bind(
        spoiled,
        table.io,
        table.current_snapshot(),
        partition_key({1000: int(START.timestamp()) // 3600 + 1}),
        job_id="job",
        table=TableId("u", "shop.orders"),
        partition_label="hour 1",
        take=Take(below_bytes=2**40),
        target_size_bytes=2**20,
        policy_hash="",
        why="",
    )
    assert refused == Refusal(Reason.UNSUPPORTED, said)
