"""A manifest or a list that was cut off is no shorter one, and what is none says so."""

from pathlib import Path

import pytest

from isotherm.clients.manifests.avro import UnreadableError
from isotherm.clients.manifests.reading import read_manifest_list
from isotherm.contract.paths import normalised
from support.lab import Lab
from support.written_manifest import AS_COLUMNS, AS_ENTRIES, Written, entry


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_manifest_that_was_cut_off_is_no_shorter_manifest(tmp_path, part, large_bytes):
    written = Written(tmp_path, codec="null", in_block=1)
    manifest = written.write(*(entry() for _ in range(200)))
    whole = written.path.read_bytes()
    written.path.write_bytes(whole[: int(part * len(whole))])

    with pytest.raises(UnreadableError, match="a manifest"):
        written.counted(manifest, large_bytes=large_bytes)


@pytest.mark.parametrize("large_bytes", [AS_COLUMNS, AS_ENTRIES])
@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1" * 100, bytes(100_000)])
def test_what_is_no_manifest_says_so(tmp_path, data, large_bytes):
    written = Written(tmp_path)
    written.path.write_bytes(data)

    with pytest.raises(UnreadableError):
        written.counted(written.listed(), large_bytes=large_bytes)


def test_a_manifest_list_that_was_cut_off_is_no_shorter_list(tmp_path):
    """Nowhere in its blocks; a file that ends right after its header is an empty list, and cannot be told from one."""
    lab = Lab(tmp_path)
    table = lab.create()
    for hour in range(6):
        lab.append(table, hour)
    location = table.refresh().current_snapshot().manifest_list
    path = Path(normalised(location))
    whole, read = path.read_bytes(), read_manifest_list(table.io, location)
    header = next(
        end
        for end in range(len(whole))
        if _is_empty_list(path, whole[:end], lambda: read_manifest_list(table.io, location))
    )
    assert len(read) == 6
    for end in range(0, len(whole), 7):
        if end == header:
            continue
        path.write_bytes(whole[:end])
        with pytest.raises(UnreadableError):
            read_manifest_list(table.io, location)


def _is_empty_list(path, data, read):
    path.write_bytes(data)
    try:
        return read() == []
    except UnreadableError:
        return False
