"""Where a reader is comes back from its record as it was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from isotherm.contract.readers import ReadPosition, decode_position, encode_position

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"), min_size=1, max_size=50
)


@given(NAMES, st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**47))
def test_a_position_comes_back(reader, snapshot_id, at_ms):
    position = ReadPosition(
        table_uuid="u", table="shop.orders", reader=reader, snapshot_id=snapshot_id, at_ms=at_ms
    )

    assert decode_position(position.key, encode_position(position)) == position


@pytest.mark.parametrize("reader", ["", "a/b", "a\nb", "x" * 201])
def test_a_name_that_is_none_is_refused(reader):
    with pytest.raises(ValidationError):
        ReadPosition(table_uuid="u", table="t", reader=reader, snapshot_id=1, at_ms=1)
