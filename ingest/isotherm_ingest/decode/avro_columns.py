"""Many Avro messages of one schema, decoded at once: they become one block of a file, which DataFusion reads into Arrow.

Behind each message stands a mark: random bytes that no producer knows, and its number. As long as the reader finds each mark
where it expects one, each message took exactly its own bytes. What it reads from the first other one on is not believed.

DataFusion never returns from a block whose announced entries are over before its bytes are. So the block announces more
than it can hold, is filled up to whole batches, and ends with rubbish: each reading ends with an error behind the last
batch. It reads paths, so the block is a temporary file.
"""

import json
import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from isotherm_ingest.decode.avro_schema import Node, walk, written_length
from isotherm_ingest.decode.avro_values import MOST_GROWTH as NAMES_GROWTH
from isotherm_ingest.decode.avro_values import ROOM, longest_names
from isotherm_ingest.decode.database import ask
from isotherm_ingest.decode.kinds import MAX_DEPTH
from isotherm_ingest.decode.sql_text import literal_in_sql, name_in_sql

if TYPE_CHECKING:
    from datafusion import SessionContext

BATCH_ROWS = 256
"""Messages that DataFusion hands over at once; the last batch is filled up."""
MARK = 16
MOST_FIXED = 1024
"""Bytes of a fixed: DataFusion takes as many for each null."""
MOST_GROWTH = 64
"""Bytes in Arrow for each byte of an item in a list."""
MAX_TYPES, MAX_FIELDS = 4_000, 2_000
"""Of a schema, without its unions and nulls, and of one record in it. DuckDB's memory grows with the square of a record's fields:
one of 2,000 takes half a gigabyte, one of 16,000 eleven. Tables have 2,000 columns at most, in two images."""
MAX_WRITTEN = 256 * 1024
"""Characters of all names of fields and symbols, which are in the statement: of an enum, in each place where it is named."""
MOST_BYTES = 64 * 1024 * 1024
"""In Arrow, of messages that are read together and have the shortest values: a null takes as many bytes as its type has."""
_NOT_IN_MAPS = {"bytes", "fixed", "enum", "record", "array", "map"}
_RUBBISH = b"\xff" * 32
"""No number ends here."""
_MAGIC, _SYNC = b"Obj\x01", bytes(16)


def can_read(node: Node) -> bool:
    """Whether messages of a schema can be read so: unions of null and one other type only, no empty records, no lists
    of a byte that Arrow, or the text, has hundreds for; and nothing that DuckDB takes gigabytes to plan.
    """
    if node.type != "record" or longest_names(node) > ROOM or at_once(node) < BATCH_ROWS:
        return False
    nodes = list(walk(node))
    types = sum(one.type not in {"union", "null"} for one in nodes)
    written = sum(written_length(one.names) for one in nodes)
    return (
        types <= MAX_TYPES
        and written <= MAX_WRITTEN
        and _levels(node) <= MAX_DEPTH
        and all(map(_is_read, nodes))
    )


def at_once(node: Node) -> int:
    """How many messages of a schema may be read together."""
    return MOST_BYTES // max(_width(node), 1)


def _levels(node: Node) -> int:
    """Lists in lists: DuckDB plans for each of them twice what is in it."""
    return max(map(_levels, node.inner), default=0) + (node.type == "array")


def _is_read(node: Node) -> bool:
    match node.type:
        case "union":
            return node.is_nullable
        case "record":
            return 0 < len(node.names) <= MAX_FIELDS
        case "enum":
            return bool(node.names)
        case "fixed":
            return 0 < node.size <= MOST_FIXED
        case "map":
            return node.inner[0].plain.type not in _NOT_IN_MAPS and _grows_little(node.inner[0])
        case "array":
            return _grows_little(node.inner[0])
        case _:
            return True


def _grows_little(item: Node) -> bool:
    """Whether items take not many more bytes in Arrow, and in the text, than in a message, which may have a million of them.

    So no message that is read here is one that a strict reader refuses for the length of its text.
    """
    shortest = len(_zero(item.plain))
    return _width(item) <= MOST_GROWTH * len(_zero(item)) and longest_names(item) <= NAMES_GROWTH * shortest


def _width(node: Node) -> int:
    """Bytes in Arrow of the shortest value of a type, or of its null."""
    one = node.plain
    if one.type == "record":
        return sum(map(_width, one.inner))
    return max(one.size, 8)


def texts(
    node: Node, wanted: Sequence[Sequence[str]], around: tuple[str, str], bodies: Sequence[bytes]
) -> list[bytes | None]:
    """The first messages as JSON, of some fields of their record; of the others nothing is known.

    None stands for a message that took its own bytes, and may be none all the same.

    Args:
        node: the schema, which `can_read`.
        wanted: paths of fields; each is in the JSON as it is in the record.
        around: what comes before and behind that in each text.
        bodies: the messages.
    """
    before, behind = map(literal_in_sql, around)
    # No producer knows it either. An error of DuckDB's would void the whole reading.
    no_symbol = secrets.token_hex(MARK)
    text = f"encode({before} || to_json({_object(node, wanted, no_symbol)})::VARCHAR || {behind})"
    batches: list[pa.RecordBatch] = []
    nonce = secrets.token_bytes(MARK - 8)
    marks = [nonce + number.to_bytes(8) for number in range(len(bodies))]
    try:
        batches.extend(_batches(node, {path[0] for path in wanted}, bodies, marks))
    except BaseException as err:  # noqa: BLE001 (told apart)
        _only_of_messages(err)
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    table = table.slice(0, _proved(table.column("mark"), marks))
    try:
        found = ask(f"SELECT {text} AS text FROM given", table)["text"]  # noqa: S608 (quoted)
    except BaseException as err:  # noqa: BLE001 (told apart)
        _only_of_messages(err)
        return []
    is_none = pc.match_substring(found, no_symbol.encode())
    made: list[bytes | None] = pc.if_else(is_none, None, found).to_pylist()
    return made


def _only_of_messages(err: BaseException) -> None:
    """Raise what is no error of a message. DataFusion's have no class, DuckDB's are many, a panic in Rust is no Exception."""
    if not isinstance(err, Exception) and type(err).__name__ != "PanicException":
        raise err


def _proved(found: pa.ChunkedArray, marks: Sequence[bytes]) -> int:
    """How many messages took their own bytes: those before the first mark that is not where it is expected."""
    matched = pc.equal(
        found.slice(0, len(marks)), pa.chunked_array([pa.array(marks[: len(found)], pa.binary(MARK))])
    )
    place: int = pc.index(matched, value=False).as_py()
    return len(matched) if place < 0 else place


def _batches(
    node: Node, wanted: set[str], bodies: Sequence[bytes], marks: Sequence[bytes]
) -> Iterator[pa.RecordBatch]:
    """What DataFusion reads, which is less where it comes upon what is no value."""
    filler = _zero(node) + bytes(MARK)
    fillers = -len(bodies) % BATCH_ROWS
    block = b"".join(
        [*(part for pair in zip(bodies, marks, strict=True) for part in pair), filler * fillers, _RUBBISH]
    )
    names = [f"c{place}" for place, name in enumerate(node.names) if name in wanted]
    with NamedTemporaryFile(suffix=".avro") as file:
        file.write(_file_of(_schema(node), block))
        file.flush()
        batches = _datafusion().read_avro(file.name).select(*names, "mark").execute_stream()
        for one in islice(batches, (len(bodies) + fillers) // BATCH_ROWS):
            yield one.to_pyarrow()


@cache
def _datafusion() -> "SessionContext":
    from datafusion import SessionConfig, SessionContext  # it takes a second, and only Avro needs it

    return SessionContext(SessionConfig().with_target_partitions(1).with_batch_size(BATCH_ROWS))


def _file_of(schema: dict[str, Any], block: bytes) -> bytes:
    """A file with one block, which announces an entry for each byte: they never run out before the bytes do."""
    pairs = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    told = b"".join(_sized(name.encode()) + _sized(value) for name, value in pairs.items())
    header = _MAGIC + number(len(pairs)) + told + number(0) + _SYNC
    return header + number(len(block)) + number(len(block)) + block + _SYNC


def number(value: int) -> bytes:
    """A number as Avro writes it."""
    left, found = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


def _sized(data: bytes) -> bytes:
    return number(len(data)) + data


def _schema(node: Node) -> dict[str, Any]:
    """The schema of the entries: the fields, and a mark. Names are by place, since DuckDB takes `Id` and `id` for one."""
    names = iter(f"t{place}" for place in range(10**9))
    fields = [{"name": f"c{place}", "type": _bare(one, names)} for place, one in enumerate(node.inner)]
    mark = {"name": "mark", "type": {"type": "fixed", "name": "mark", "size": MARK}}
    return {"type": "record", "name": "entry", "fields": [*fields, mark]}


def _bare(node: Node, names: Any) -> Any:
    """A type without what it means: a date is a number, a decimal its bytes."""
    match node.type:
        case "union":
            return [_bare(one, names) for one in node.inner]
        case "record":
            fields = [
                {"name": f"c{place}", "type": _bare(one, names)} for place, one in enumerate(node.inner)
            ]
            return {"type": "record", "name": next(names), "fields": fields}
        case "fixed":
            return {"type": "fixed", "name": next(names), "size": node.size}
        case "enum":  # which is written as its number; DuckDB does not take all that Arrow has for one
            return "int"
        case "array":
            return {"type": "array", "items": _bare(node.inner[0], names)}
        case "map":
            return {"type": "map", "values": _bare(node.inner[0], names)}
        case _:
            return node.type


def _zero(node: Node) -> bytes:
    """The shortest value of a type."""
    match node.type:
        case "null":
            return b""
        case "float" | "fixed" | "double":
            return bytes({"float": 4, "double": 8}.get(node.type, node.size))
        case "union":
            return number(node.null_at)
        case "record":
            return b"".join(_zero(one) for one in node.inner)
        case _:
            return b"\0"


def _object(node: Node, wanted: Sequence[Sequence[str]], no_symbol: str) -> str:
    """SQL of an object that has the wanted fields of the record; `no_symbol` is in it for each symbol that is none."""
    packed = []
    for place, (name, one) in enumerate(node.fields().items()):
        if (name,) in map(tuple, wanted):
            packed.append(f"{name_in_sql(name)} := {_json(one, f'c{place}', no_symbol)}")
        elif below := [tuple(path[1:]) for path in wanted if path[0] == name]:
            record = one.plain
            some = [
                f"{name_in_sql(inner)} := {_json(field, f'c{place}.c{number}', no_symbol)}"
                for number, (inner, field) in enumerate(record.fields().items())
                if (inner,) in below
            ]
            packed.append(
                f"{name_in_sql(name)} := CASE WHEN c{place} IS NOT NULL THEN struct_pack({', '.join(some)}) END"
            )
    return f"struct_pack({', '.join(packed)})"


def _json(node: Node, value: str, no_symbol: str, depth: int = 0) -> str:
    """SQL of a value as JSON has it: bytes in base64, fields and symbols under their names."""
    one = node.plain
    match one.type:
        case "bytes" | "fixed":
            return f"base64({value}::BLOB)"
        case "enum":
            symbols, last = ", ".join(map(literal_in_sql, one.names)), len(one.names) - 1
            symbol = f"CASE WHEN {value} BETWEEN 0 AND {last} THEN ([{symbols}])[{value} + 1] ELSE '{no_symbol}' END"
            return f"CASE WHEN {value} IS NOT NULL THEN {symbol} END"
        case "array":
            item = f"x{depth}"
            return (
                f"list_transform({value}, lambda {item}: {_json(one.inner[0], item, no_symbol, depth + 1)})"
            )
        case "record":
            fields = ", ".join(
                f"{name_in_sql(name)} := {_json(field, f'{value}.c{place}', no_symbol, depth)}"
                for place, (name, field) in enumerate(one.fields().items())
            )
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({fields}) END"
        case _:
            return value
