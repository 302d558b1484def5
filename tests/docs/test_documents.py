"""What the documents say is there, is there: links, commands, and the story that newcomers are shown."""

import re
from pathlib import Path

import pytest

from isotherm.cli import app
from isotherm.commands.groups import policy_app
from support.world import World

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "deploy").glob("*.md"),
        *(ROOT / "grafana").glob("*.md"),
    )
)


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
    planned = {"top", "doctor", "apply"}

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
