"""Which row a change is about: its key, that of a delete, and that of a row which goes to another key."""

from dataclasses import replace

import pyarrow as pa
import pytest

from isotherm_ingest.decode.debezium_messages import decoder
from isotherm_ingest.decode.debezium_schema import change_schema
from isotherm_ingest.decode.statement import Wanted, hidden_keys
from support.wire import ID, MICROS, PLACEHOLDER, ZONED, decimal, decoded, decoder_of, key, message, raw

FIELDS = [ID, {"field": "name", "type": "string"}, {"field": "at", **ZONED}]


def row(number, name="n", at=None):
    return {"id": number, "name": name, "at": at}


def test_a_delete_has_the_old_row_and_else_what_its_key_says():
    values = [
        message(FIELDS, op="d", before=row(1, "old")),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
        message(FIELDS, op="d"),
    ]
    keys = [key(id=1), key(id=2), key(other=2), b"\xff", None]
    found = decoded(decoder_of(FIELDS), raw(*values, keys=keys))

    assert [one for one, _ in found] == [row(1, "old"), row(2, None), None, None, None]
    assert [change["problem"] for _, change in found] == [
        None,
        None,
        *["no_row:the change has no row image"] * 3,
    ]


def test_a_key_of_several_columns():
    fields = [ID, {"field": "part", "type": "int64"}, {"field": "name", "type": "string"}]
    found = decoder_of(fields, keys=("id", "part"), message_key=key(id=1, part=1))
    ((old, change),) = decoded(found, raw(message(fields, op="d"), keys=[key(id=4, part=7)]))

    assert old == {"id": 4, "part": 7, "name": None}
    assert change["problem"] is None


@pytest.mark.parametrize("keeps", [True, False], ids=["mirror", "changelog"])
@pytest.mark.parametrize(
    ("told", "of_key", "problem"),
    [
        ({"ID": 7}, row(7, None), None),
        ({"Id": 7, "id": 8}, row(8, None), None),
        ({"order_uuid": 7}, None, "no_row:the change has no row image"),
    ],
    ids=["case", "exact", "renamed"],
)
def test_a_message_key_may_have_other_names_than_the_row(keeps, told, of_key, problem):
    """Where a transform renames columns of the value alone. No statement could be planned, and the table stood."""
    found = decoder_of(FIELDS, message_key=key(**told), keeps=keeps)
    values = [message(FIELDS, after=row(1)), message(FIELDS, op="d", before=row(2)), message(FIELDS, op="d")]
    changes = decoded(found, raw(*values, keys=[key(**told)] * 3))

    assert [one for one, _ in changes] == [row(1), row(2), of_key]
    assert [change["problem"] for _, change in changes] == [None, None, problem]


def test_a_mirror_s_delete_needs_nothing_but_its_key():
    """The row may have come before, and must not stay because of a value that nobody writes."""
    fields = [*FIELDS, {"field": "until", **MICROS}]
    gone = raw(message(fields, op="d", before={**row(1), "until": 2**63 - 1}), keys=[key(id=1)])

    (((deleted, change),), ((_, of_changelog),)) = (
        decoded(decoder_of(fields, keeps=keeps), gone) for keeps in (True, False)
    )
    assert (deleted["id"], deleted["until"], change["problem"]) == (1, None, None)
    assert of_changelog["problem"] == "undecodable_value:until"


def test_a_key_is_never_emptied():
    fields = [ID, {"field": "UNTIL", **MICROS}]
    messages = raw(message(fields, after={"id": 1, "UNTIL": 2**63 - 1}))
    found = {
        policy: decoded(decoder_of(fields, keys=("id", "until"), out_of_range=policy), messages)[0]
        for policy in ("null", "clamp")
    }

    assert found["null"][0] is None
    assert found["null"][1]["problem"] == "undecodable_value:UNTIL"
    assert found["clamp"][0]["UNTIL"].year == 9999


def test_a_key_in_which_a_column_is_null():
    ((_, change),) = decoded(decoder_of(FIELDS), raw(message(FIELDS, op="d"), keys=[key(id=None)]))

    assert change["problem"] == "null_key:id"


DEFAULT_IDENTITY = [
    ID,
    {"field": "code", "type": "int64"},
    {"field": "name", "type": "string"},
    {"field": "at", **ZONED},
    {"field": "price", **decimal(2, 10)},
    {"field": "state", "type": "string", "default": "new"},
    {"field": "count", "type": "int32", "default": 1, "optional": True},
    {"field": "note", "type": "string", "optional": True},
]
MADE_UP = {
    "code": 0, "name": "", "at": "1970-01-01T00:00:00Z", "price": "AA==", "state": "new", "count": 1, "note": None,
}  # fmt: skip


def test_of_a_delete_that_tells_its_message_key_alone_no_other_key_is_believed():
    """PostgreSQL's REPLICA IDENTITY DEFAULT: what a column must have and was not told, Debezium makes up."""
    decoder = decoder_of(DEFAULT_IDENTITY, keys=("code",), message_key=key(id=1))
    messages = raw(
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP}),
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "name": "told", "code": 0}),
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "code": 5}),
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "count": None}),
        # Whole rows of REPLICA IDENTITY FULL: nobody makes up these values.
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "state": ""}),
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "count": 0}),
        message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP, "note": ""}),
        keys=[key(id=7)] * 7,
    )

    problems = [change["problem"] for _, change in decoded(decoder, messages)]
    untold = "no_row:the old row tells no more than the message key; say REPLICA IDENTITY FULL"
    assert problems == [untold, None, None, untold, None, None, None]


def test_the_old_row_of_an_update_is_whole_whatever_it_holds():
    """Without REPLICA IDENTITY FULL there is none."""
    fields = [ID, {"field": "code", "type": "int64"}, {"field": "note", "type": "string", "optional": True}]
    decoder = decoder_of(fields, keys=("code",), message_key=key(id=1))
    old, new = ({"id": 7, "code": code, "note": None} for code in (0, 1))
    left = decoder.left(raw(message(fields, op="u", before=old, after=new), keys=[key(id=7)]))

    assert [row["code"] for row in left.column("row").to_pylist()] == [0]


def test_where_the_message_key_is_the_table_s_a_made_up_old_row_is_enough():
    decoder = decoder_of(DEFAULT_IDENTITY, keys=("id",), message_key=key(id=1))
    messages = raw(message(DEFAULT_IDENTITY, op="d", before={"id": 7, **MADE_UP}), keys=[key(id=7)])

    ((row, change),) = decoded(decoder, messages)
    assert (row["id"], change["problem"]) == (7, None)


def test_an_update_that_changes_the_table_s_key_leaves_a_row():
    """The messages have another key, or none: no delete comes before it."""
    found = decoder_of(FIELDS, keys=("NAME",), message_key=key(id=1))
    messages = raw(
        message(FIELDS, op="u", before=row(1, "a"), after=row(1, "b")),
        message(FIELDS, op="u", before=row(1, "b"), after=row(2, "b")),
        message(FIELDS, op="u", before=row(1, None), after=row(1, "c")),
        message(FIELDS, op="u", after=row(1, "d")),
        message(FIELDS, op="d", before=row(1, "d")),
        b"poison",
    )
    left = found.left(messages).to_pylist()

    assert [(one["row"]["name"], one["change"]["op"], one["change"]["offset"]) for one in left] == [
        ("a", "d", 0)
    ]
    untold = [change["untold"] for _, change in decoded(found, messages)]
    assert untold == [None, None, None, ["name"], None, None]


@pytest.mark.parametrize(("keys", "keeps"), [(("id",), True), (("id", "name"), False)])
def test_no_update_leaves_a_row_where_debezium_makes_a_delete_of_it(keys, keeps):
    messages = raw(message(FIELDS, op="u", before=row(1), after=row(2)))

    assert decoder_of(FIELDS, keys=keys, keeps=keeps).left(messages).num_rows == 0


def test_a_large_value_that_is_left_out_of_the_key_is_no_key():
    """Rows of all keys were written over one another, under the placeholder."""
    found = decoder_of(FIELDS, keys=("name",), message_key=key(id=1))
    messages = raw(
        message(FIELDS, op="u", after=row(1, PLACEHOLDER)),
        message(FIELDS, op="u", before=row(2, "whole"), after=row(2, PLACEHOLDER)),
        message(FIELDS, op="c", after=row(3, PLACEHOLDER)),  # nothing is left out of a new row
    )

    untold = "no_row:an unchanged large value stands in the key; say REPLICA IDENTITY FULL"
    assert [change["problem"] for _, change in decoded(found, messages)] == [untold, untold, None]
    assert found.left(messages).num_rows == 0


def test_in_a_changelog_the_placeholder_is_what_it_is():
    found = decoder_of(FIELDS, keys=("name",), keeps=False)

    ((told, change),) = decoded(found, raw(message(FIELDS, op="u", after=row(1, PLACEHOLDER))))
    assert (told["name"], change["problem"]) == (PLACEHOLDER, None)


@pytest.mark.parametrize("told", ["order_uuid", "id"])
def test_a_key_and_a_row_may_have_the_names_that_the_table_calls_otherwise(told):
    """Told by `names`: a delete by its key alone finds the row, and an update with another key is none of `hidden`."""
    fields = [{**ID, "field": "nr"}, {"field": "name", "type": "string"}]
    schema = replace(
        change_schema(message(fields).decode(), key(**{told: 1}).decode()),
        called=(("nr", "id"), ("order_uuid", "id")),
    )
    wanted = Wanted(("id", "name"), ("id",), keeps=True)
    found = decoder(schema, pa.schema([("id", pa.int64()), ("name", pa.string())]), wanted)
    values = [
        message(fields, after={"nr": 1, "name": "n"}),
        message(fields, op="d"),
        message(fields, op="d", before={"nr": 3, "name": None}),
    ]
    changes = decoded(found, raw(*values, keys=[key(**{told: number}) for number in (1, 2, 3)]))

    assert [one for one, _ in changes] == [
        {"id": 1, "name": "n"},
        {"id": 2, "name": None},
        {"id": 3, "name": None},
    ]
    assert [change["problem"] for _, change in changes] == [None] * 3
    assert hidden_keys(schema, wanted) == ()
