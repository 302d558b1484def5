"""The two ends of a version of a table's metadata: enough to know it by."""

from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from isotherm.clients.local_files import LocalFile
from isotherm.clients.metadata_file import END_BYTES, GZIP_MAGIC, MAX_PACKED_BYTES, unpacked_ends
from isotherm.clients.retries import store_of
from isotherm.contract.paths import is_local


def ends_of(io: FileIO, location: str) -> tuple[bytes, bytes]:
    """The first and the last bytes of a version of the metadata, of which no more is read, unless it is packed.

    Raises:
        OSError: the store does not answer, or refuses; FileNotFoundError where the file is not there.
    """

    def read() -> tuple[bytes, bytes]:
        file = (
            PyArrowFileIO.new_input(io, location) if isinstance(io, PyArrowFileIO) else io.new_input(location)
        )
        if isinstance(file, PyArrowFile) and is_local(location):
            file = LocalFile(file)
        with file.open() as stream:
            head = bytes(stream.read(END_BYTES))
            if head.startswith(GZIP_MAGIC):
                return unpacked_ends(head + bytes(stream.read(MAX_PACKED_BYTES)))
            stream.seek(max(len(file) - END_BYTES, 0))
            return head, bytes(stream.read(END_BYTES))

    return read() if is_local(location) else store_of(location, io.properties).ask(read, MAX_PACKED_BYTES)
