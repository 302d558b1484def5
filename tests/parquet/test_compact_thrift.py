"""Structures of Thrift are written as they were read, with fields that nobody here knows."""

import io
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.Thrift import TType

from isotherm.parquet.compact_thrift import (
    MOST_DEEP,
    Field,
    Items,
    NotThriftError,
    Pairs,
    bytes_of,
    read_struct,
    struct_of,
)

PLAIN: dict[int, st.SearchStrategy[Any]] = {
    TType.BOOL: st.booleans(),
    TType.BYTE: st.integers(-(2**7), 2**7 - 1),
    TType.I16: st.integers(-(2**15), 2**15 - 1),
    TType.I32: st.integers(-(2**31), 2**31 - 1),
    TType.I64: st.integers(-(2**63), 2**63 - 1),
    TType.DOUBLE: st.floats(allow_nan=False),
    TType.STRING: st.binary(max_size=40),
    TType.UUID: st.uuids().map(lambda one: uuid.UUID(bytes=one.bytes)),
}


def items(kind: int, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Field]:
    return st.lists(values, max_size=20).map(lambda found: Field(TType.LIST, Items(kind, found)))


def fields(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Field]:
    each = [values.map(lambda value, kind=kind: Field(kind, value)) for kind, values in PLAIN.items()]
    lists = [items(kind, values) for kind, values in PLAIN.items()]
    pairs = st.lists(st.tuples(PLAIN[TType.I32], inner), min_size=1, max_size=3).map(
        lambda found: Field(TType.MAP, Pairs(TType.I32, TType.STRUCT, found))
    )
    nested = inner.map(lambda value: Field(TType.STRUCT, value))
    return st.one_of(*each, *lists, nested, items(TType.STRUCT, inner), pairs)


def structs(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(st.integers(1, 2**15 - 1), fields(inner), max_size=6)


STRUCTS = st.recursive(st.just({}), structs, max_leaves=12)


@given(STRUCTS)
def test_what_is_written_is_read_and_written_again(struct):
    content = bytes_of(struct)

    assert struct == struct_of(content)
    assert content == bytes_of(struct_of(content))


@given(STRUCTS, st.binary(max_size=10))
def test_a_stream_is_left_behind_the_structure(struct, behind):
    content = bytes_of(struct)
    stream = io.BytesIO(content + behind)

    assert struct == read_struct(stream)
    assert len(content) == stream.tell()


@given(st.binary(max_size=60))
def test_any_bytes_are_a_structure_or_none(content):
    try:
        struct = struct_of(content)
    except NotThriftError:
        return
    assert content == bytes_of(struct)


def test_the_order_of_fields_is_kept():
    struct = {7: Field(TType.I32, 1), 3: Field(TType.I32, 2), 400: Field(TType.DOUBLE, math.inf)}

    assert list(struct) == list(struct_of(bytes_of(struct)))


def test_structures_that_lie_too_deep_are_none():
    struct = {}
    for _ in range(MOST_DEEP + 1):
        struct = {1: Field(TType.STRUCT, struct)}

    with pytest.raises(NotThriftError, match="deep"):
        struct_of(bytes_of(struct))


def test_a_field_that_is_there_twice_is_none():
    with pytest.raises(NotThriftError, match="twice"):
        # Field 1 by its distance from 0, and once more by its number.
        struct_of(bytes([0x15, 2, 0x05, 2, 2, 0]))


@pytest.mark.parametrize(
    "content", [b"", b"\x15", b"\x18\xff\xff\xff\xff\x0f", b"\x19\xfc\xff\xff\xff\xff\x0f"]
)
def test_what_ends_early_or_says_that_it_is_too_long_is_none(content):
    with pytest.raises(NotThriftError):
        struct_of(content)


def test_a_number_that_does_not_fit_is_not_written():
    with pytest.raises(NotThriftError, match="cannot be written"):
        bytes_of({1: Field(TType.I32, 2**31)})
