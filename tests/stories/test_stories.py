"""The stories: each file in tests/stories is one; `pytest --rewrite` writes their answers again."""

from pathlib import Path

import pytest

from support.world import World

STORIES = sorted(Path(__file__).parent.glob("*.txt"))
LINE = "----"


def play(text):
    """The story with the answers that it gets now."""
    world, told, answered, in_answer = World(), [], "", False
    for line in text.splitlines():
        if line.startswith(LINE):
            told.extend([LINE, *answered.splitlines()])
            answered, in_answer = "", True
        elif in_answer and line:
            continue
        else:
            in_answer = False
            told.append(line)
            if line and not line.startswith("#"):
                answered += world.run(line) or ""
    return "\n".join(told) + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path, request):
    text = path.read_text()
    played = play(text)
    if request.config.getoption("--rewrite"):
        path.write_text(played)
        return

    assert text == played


def test_there_are_stories():
    assert len(STORIES) >= 8
