"""What a mutant is, and how it is put in the place of the code."""

import gc
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "daemon" / "isotherm"
INGEST = REPOSITORY / "ingest"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake in the code, and the test that must notice it."""

    breaks: str
    """What the daemon does then, in words."""
    file: str
    """Below daemon/isotherm, or below ingest, where it begins with isotherm_ingest/."""
    text: str
    """What is in the file, exactly once, within a function."""
    change: str
    """What is put in its place."""
    finder: str
    """A test (pytest's node id, without `tests/`; without parameters all of them), or `seed N` of the simulation."""

    @property
    def source(self) -> Path:
        """The file."""
        return (INGEST if self._is_of_ingest else SOURCE) / self.file

    @property
    def module(self) -> str:
        """The module's name."""
        name = self.file.removesuffix(".py").replace("/", ".")
        return name if self._is_of_ingest else f"isotherm.{name}"

    @property
    def _is_of_ingest(self) -> bool:
        return self.file.startswith("isotherm_ingest/")

    def put_in_place(self) -> None:
        """Give each function of the module, in this process, the code that it has with the mistake.

        Classes and constants stay as they are, so whoever has imported something from the module has it changed too.
        """
        import_module(self.module)
        good = self.source.read_text()
        before = by_name(compile(good, self.source, "exec"))
        after = by_name(compile(good.replace(self.text, self.change), self.source, "exec"))
        assert before.keys() == after.keys(), "a mutant changes what functions do, not which there are"
        differs = {name for name in before if meaning(before[name]) != meaning(after[name])}
        changed = 0
        for function in functions_in(self.source):
            name = function.__code__.co_qualname
            if name in differs:
                place = [code.co_firstlineno for code in before[name]].index(function.__code__.co_firstlineno)
                function.__code__ = after[name][place]
                changed += 1
        assert changed, f"no function of {sys.modules[self.module]} has changed"


def functions_in(source: Path) -> list[FunctionType]:
    """The functions that this process has from a file, wherever they are."""
    if str(source) not in functions_now():
        functions_now.cache_clear()
    return functions_now()[str(source)]


@cache
def functions_now() -> Mapping[str, list[FunctionType]]:
    """All functions of ours that this process has, by file. It looks at every object, so it is asked once."""
    gc.unfreeze()  # else it is not told of what was collected (tests/conftest.py)
    found = defaultdict(list)
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename.startswith((str(SOURCE), str(INGEST))):
            found[one.__code__.co_filename].append(one)
    return found


def by_name(code: CodeType) -> dict[str, list[CodeType]]:
    """The code of the functions of a module and of its classes, by their qualified names, in the order of the file."""
    found = defaultdict(list)
    for one in functions_of(code):
        found[one.co_qualname].append(one)
    return dict(found)


def functions_of(code: CodeType) -> Iterator[CodeType]:
    """The functions in a module or a class; those within a function belong to it."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            is_class_body = "__qualname__" in one.co_names and "__module__" in one.co_names
            if is_class_body:
                yield from functions_of(one)
            else:
                yield one


def meaning(codes: list[CodeType]) -> list[object]:
    """What tells codes apart, wherever in the file they are."""
    return [
        (
            code.co_code,
            code.co_names,
            code.co_varnames,
            [one for one in code.co_consts if not isinstance(one, CodeType)],
            meaning([one for one in code.co_consts if isinstance(one, CodeType)]),
        )
        for code in codes
    ]
