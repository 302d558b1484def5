"""What nothing of the program names is dead, and goes; that a test names it does not keep it alive.

Functions, classes, methods and constants are looked for by their names alone, so what shares its name with something
alive is not found. Fields are data, and may be there for whoever reads them.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [
    path.read_text(encoding="utf-8")
    for folder in ("daemon", "ingest", "grafana", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
OURS_TO_CALL = {"property", "cached_property", "staticmethod", "classmethod", "contextmanager", "dataclass"}
"""What any other decorator decorates, a library calls: a command, a validator."""
FOR_OTHERS = {"Java", "errorMessage", "to_path"}
"""What Java, or PyIceberg, asks of an object of ours."""
FOR_TESTS = {"stop_connector": "whoever shares a stack ends the connectors that it has started"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def words_used(tree: ast.Module) -> Iterator[str]:
    """Every name that is read, and every word of a text without spaces, by which a class may be loaded."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Constant(value=str(text)) if " " not in text:
                yield from re.split(r"\W+", text)


def definitions(body: Iterable[ast.stmt], foreign: frozenset[str]) -> Iterator[str]:
    """What is defined, but for methods that a base class of somebody else's may call."""
    for node in body:
        if isinstance(node, Definition):
            decorators = [
                ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in node.decorator_list
            ]
            if set(decorators) <= OURS_TO_CALL:
                yield node.name
            if isinstance(node, ast.ClassDef):
                inner = definitions(node.body, foreign)
                is_ours = not foreign & {ast.unparse(base).partition("[")[0] for base in node.bases}
                yield from (one for one in inner if is_ours)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (one.id for one in targets if isinstance(one, ast.Name) and one.id.isupper())


def dead(sources: Iterable[str]) -> set[str]:
    """The names of what nothing names."""
    trees = [ast.parse(source) for source in sources]
    classes = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    bases = {
        ast.unparse(base).partition("[")[0]
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }
    foreign = frozenset(bases - classes - {"Protocol", "Exception"})
    used = {word for tree in trees for word in words_used(tree)}
    defined = {name for tree in trees for name in definitions(tree.body, foreign)}
    return {name for name in defined - used if not (name.startswith("__") and name.endswith("__"))}


def test_nothing_is_dead():
    assert {*FOR_TESTS, *FOR_OTHERS} == dead(SOURCES)


def test_what_is_dead_is_found():
    source = """
import io
from typer import app

LIMIT = 1
OLD = 3

class Alive(Base):
    def called(self): return LIMIT
    def forgotten(self): ...
    @property
    def nobody_asks(self): ...

class Base: ...
class Gone: ...

class Stream(io.RawIOBase):
    def readable(self): ...

@app.command()
def told(): Alive().called()

def loaded_by_name(): Stream()
PLACE = "package.module:loaded_by_name"
"""

    assert {"OLD", "PLACE", "forgotten", "nobody_asks", "Gone"} == dead([source])
