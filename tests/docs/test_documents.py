"""Whatever the documents name exists: links, commands, modules, and the story that newcomers are shown."""

import re
from pathlib import Path

import pytest

from isotherm.cli import app
from isotherm.commands.groups import policy_app
from support.world import World

HERE = Path(__file__)
ROOT = HERE.parents[2]
DOCUMENTS = sorted(
    (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "deploy").glob("*.md"),
        *(ROOT / "grafana").glob("*.md"),
    )
)


NO_PATHS = {"Europe/Berlin"}
"""Texts that look like a path to a module and are none."""
FOLDERS = ("daemon", "ingest", "tests", "grafana", "docs", "deploy", "policies")
PATHS = {
    f"/{name.relative_to(ROOT)}"
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    for name in (path, path.with_suffix("") if path.suffix == ".py" else path)
    if "__pycache__" not in path.parts
}
"""Files and folders of the repository, and modules also without their ending."""


def gone(text: str) -> list[str]:
    """The modules and folders that a text names in backticks, and that the repository does not have.

    A name may leave out the folders before it: `coldness.py`, `planner/coldness.py` and `planner/coldness` are the same.
    """
    named = re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.py|\w+(?:/\w+)+)(?:/|::[^`\s]+)?`", text)
    return [name for name in named if not any(path.endswith(f"/{name}") for path in PATHS)]


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8"))
    broken = []
    for link in links:
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_that_a_document_names_exists(document):
    assert set(gone(document.read_text(encoding="utf-8"))) - NO_PATHS == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_module_file_that_the_code_names_exists(folder):
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py") if path != HERE]

    assert [name for text in sources for name in gone(text) if name.endswith(".py")] == []


def test_a_module_that_is_gone_is_found():
    text = "`coldness.py`, `planner/coldness`, `core/planner/` and `tests/docs/test_documents.py::test_it`"

    assert gone(text) == []
    assert gone("`coldness.py`, `taking.py`, `store/taking` and `taking`") == ["taking.py", "store/taking"]


def test_the_modules_of_ingest_in_the_design_are_in_the_folders_that_it_says():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = text.partition("`isotherm_ingest` has ten folders:\n\n")[2].partition("\n\n")[0]
    folders = dict(re.findall(r"^ {4}(\w+) +(.+(?:\n {5,}.+)*)", block, flags=re.MULTILINE))
    code = ROOT / "ingest" / "isotherm_ingest"
    missing = [
        f"{folder}/{name}"
        for folder, said in folders.items()
        for name in re.findall(r"`(\w+)`", said)
        if not (code / folder / f"{name}.py").exists()
    ]

    assert sorted(folders) == sorted(path.parent.name for path in code.glob("*/__init__.py"))
    assert missing == []


def test_every_page_on_a_design_is_linked_from_the_design():
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

    assert {path.name for path in (ROOT / "docs" / "designs").glob("*.md")} == set(
        re.findall(r"^- \[([\w-]+\.md)\]\(designs/\1\)", text, flags=re.MULTILINE)
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_a_document_shows_exists(document):
    shown = set(
        re.findall(
            r"(?:^ {4}|[`$/] ?)isotherm ([a-z]+)\b", document.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    known = {
        command.name or command.callback.__name__
        for one in (app, policy_app)
        for command in one.registered_commands
    } | {group.name for group in app.registered_groups}
    planned = {"top", "apply"}

    assert shown - known - (planned if document.name == "design.md" else set()) == set()


def test_the_story_in_contributing_can_be_played():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    story = re.search(r"((?:^    .*\n)+)\nthen\n", text, flags=re.MULTILINE)
    assert story is not None
    world = World()
    answers = [world.run(line.strip()) for line in story[1].splitlines()]

    assert "due 1.33 t_hour=2024-10-04-08: cold and due" in answers[-1]


def test_the_make_targets_in_contributing_are_those_of_the_makefile():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    made = set(
        re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[
            1
        ].split()
    )
    told = set(re.findall(r"`make ([a-z]+)", text))

    assert told <= made
    assert {"demo", "test", "check", "bench", "soak", "lock"} <= told


def test_every_folder_of_the_code_has_a_row_in_contributing_that_says_what_to_run():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = text.partition("| you changed | run |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    changed = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    run = {path for row in rows for path in re.findall(r"tests/\w+", row.split("|")[2])}
    code = {path.stem for path in (ROOT / "daemon" / "isotherm").iterdir()} - {"__init__", "__pycache__"}

    assert code - changed == set()
    assert len(run) > 10
    assert [path for path in run if not (ROOT / path).is_dir()] == []


def test_every_folder_of_tests_is_in_contributing():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"__pycache__"}
    code = {path.stem for path in (ROOT / "daemon" / "isotherm").iterdir()}
    where = text.partition("## Where things are\n")[2].partition("\n## ")[0]

    assert folders - code - set(re.findall(r"tests/(\w+)", where)) == set()
