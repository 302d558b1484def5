"""A delete file in one partition that names a file of another: no row of that file comes back."""

from pathlib import Path

import pytest

from isotherm.core.model.files import FileKind
from isotherm.core.model.jobs import OutcomeKind, Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.manifests.live import live_files
from support.deleted_rows import delete_row
from support.lab import Lab
from support.rewriting import compacted, partitions, try_to_bind

ALL = Take(10**9, with_deletes=True)


@pytest.mark.parametrize("take", [ALL, Take(10**9), Take(merges_deletes=True)])
def test_the_partition_in_which_it_lies_is_not_compacted(tmp_path: Path, take: Take) -> None:
    lab = Lab(tmp_path)
    table = lab.create(**{"format-version": "2"})
    for hour in (1, 2, 2):
        lab.append(table, hour, announce=False)
    first, second = partitions(table.refresh())
    (file,) = live_files(table.metadata, table.io, table.metadata.current_snapshot(), first)  # type: ignore[arg-type]
    for position in (0, 1):
        delete_row(lab, table, file.path, position, second, announce=False, says_of=True)
    rows = table.refresh().scan().to_arrow().num_rows

    refused = try_to_bind(table, second, take=take)

    assert rows == lab.rows - 2
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.DELETES_ELSEWHERE


def test_where_its_file_is_gone_it_leaves(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    table = lab.create(**{"format-version": "2"})
    for hour in (1, 1):
        lab.append(table, hour, announce=False)
    (key,) = partitions(table.refresh())
    delete_row(lab, table, f"{table.location()}/data/gone.parquet", 0, key, announce=False, says_of=True)

    assert compacted(lab.catalog, "shop.orders", key, take=ALL).kind is OutcomeKind.DONE

    table.refresh()
    found = live_files(table.metadata, table.io, table.metadata.current_snapshot())  # type: ignore[arg-type]
    assert [one.kind for one in found] == [FileKind.DATA]
    assert table.scan().to_arrow().num_rows == lab.rows
