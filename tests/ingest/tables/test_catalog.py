"""A catalog that takes the call and never answers is not waited for."""

import socket

import pytest
from requests import ReadTimeout

from isotherm_ingest.tables.catalog import open_catalog


def test_a_catalog_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ReadTimeout):
            open_catalog("lake", {"type": "rest", "uri": uri}, answer_s=0.1)
