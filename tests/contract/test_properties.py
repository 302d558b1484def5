"""Properties of tables are read as Iceberg's Java reads them: `Boolean.parseBoolean`."""

import pytest

from isotherm.contract.properties import says


@pytest.mark.parametrize(
    ("word", "is_true"),
    [
        ("true", True),
        ("TRUE", True),
        ("false", False),
        ("yes", False),
        ("1", False),
        ("", False),
        (" true ", False),
    ],
)
@pytest.mark.parametrize("default", [True, False])
def test_of_all_words_only_one_is_true(word, is_true, default):
    assert says({"gc.enabled": word}, "gc.enabled", default=default) is is_true
    assert says({}, "gc.enabled", default=default) is default
