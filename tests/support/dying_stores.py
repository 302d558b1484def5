"""Stores that copy nothing by themselves, break off half way, or end the process that uses them."""

import io as streams
import os
from pathlib import Path

from pyarrow import PythonFile
from pyarrow.fs import FileSystemHandler, LocalFileSystem, PyFileSystem

from isotherm.clients.storage import RetryingFileIO, properties_with_retries


class NoCopies(FileSystemHandler):
    """A folder of this disk as a store that cannot copy, like HDFS through PyArrow, and shows what is half written."""

    def __init__(self, root, client):
        self.root, self.files, self.client = root, LocalFileSystem(), client

    def at(self, path):
        return str(self.root / path.lstrip("/"))

    def get_type_name(self):
        return "without copies"

    def get_file_info(self, paths):
        return self.files.get_file_info([self.at(path) for path in paths])

    def delete_file(self, path):
        self.files.delete_file(self.at(path))

    def open_input_stream(self, path):
        return self.files.open_input_stream(self.at(path))

    def open_input_file(self, path):
        return self.files.open_input_file(self.at(path))

    def open_output_stream(self, path, metadata):  # noqa: ARG002
        Path(self.at(path)).parent.mkdir(parents=True, exist_ok=True)
        if (left := self.client.breaks_at) is not None:
            self.client.breaks_at = None
            return PythonFile(Breaks(self.at(path), left), mode="w")
        return self.files.open_output_stream(self.at(path))

    def move(self, path, other):
        os.link(self.at(path), self.at(other))  # it writes over nothing
        os.unlink(self.at(path))  # noqa: PTH108

    def refused(self, *_):
        raise NotImplementedError("not supported yet")

    copy_file = get_file_info_selector = create_dir = delete_dir = delete_dir_contents = refused
    delete_root_dir_contents = open_append_stream = normalize_path = refused


class Breaks(streams.RawIOBase):
    """What is written, up to some bytes; then the connection is gone."""

    def __init__(self, path, left):
        self.file, self.left = Path(path).open("wb"), left  # noqa: SIM115 (closed below)

    def writable(self):
        return True

    def write(self, data):
        self.file.write(bytes(data)[: self.left])
        raise OSError("pipeline broken")

    def close(self):
        self.file.close()
        super().close()


class OfNoCopies(RetryingFileIO):
    breaks_at = None

    def __init__(self, root):
        super().__init__(properties_with_retries({}))
        self.root = root

    def _initialize_fs(self, scheme, netloc=None):
        if scheme == "file":
            return super()._initialize_fs(scheme, netloc)
        return PyFileSystem(NoCopies(self.root, self))


class Dies(BaseException):
    """The process ends here."""


class Dying(OfNoCopies):
    """A client that ends its process before or after the n-th thing that it changes."""

    left = 0

    def _maybe(self):
        self.left -= 1
        if self.left == 0:
            raise Dies

    def delete(self, location):
        self._maybe()
        super().delete(location)
        self._maybe()

    def new_output(self, location):
        self._maybe()
        return super().new_output(location)
