"""Data files lie where a table wants them, whatever it says."""

import pytest

from isotherm.clients.locations import location_provider

SCATTERED, IN_FOLDERS = "write.object-storage.enabled", "write.object-storage.partitioned-paths"


@pytest.mark.parametrize(
    ("properties", "folders"),
    [
        ({}, 0),
        ({SCATTERED: "true"}, 4),
        ({SCATTERED: "true", IN_FOLDERS: "false"}, 3),
        # A word that is neither true nor false is false, also where PyIceberg raises.
        ({SCATTERED: "yes"}, 0),
        ({SCATTERED: "true", IN_FOLDERS: "yes"}, 3),
    ],
)
def test_files_are_scattered_where_the_table_says_so(properties, folders):
    location = location_provider("s3://shop/t", properties).new_data_location("a.parquet")

    assert location.startswith("s3://shop/t/data/")
    assert location.removeprefix("s3://shop/t/data/").count("/") == folders


def test_another_folder_may_be_named_and_no_code():
    properties = {"write.data.path": "s3://files/t", "write.py-location-provider.impl": "no.such.code"}

    assert (
        location_provider("s3://shop/t", properties).new_data_location("a.parquet")
        == "s3://files/t/a.parquet"
    )
