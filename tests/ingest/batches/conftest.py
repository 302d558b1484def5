"""What the tests of batches share."""

import pytest

from support.pipelines import Pipeline


@pytest.fixture
def pipeline():
    made = Pipeline()
    yield made
    made.driver.stop()
