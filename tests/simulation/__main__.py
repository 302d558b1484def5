"""Tell stories: `PYTHONPATH=daemon:ingest:tests .venv/bin/python -m simulation SEED…`, with their last steps."""

import os
import sys

from simulation.story import told

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of sets of texts is part of a story.
    os.environ["PYTHONHASHSEED"] = "0"
    os.execv(sys.executable, [sys.executable, "-m", "simulation", *sys.argv[1:]])  # noqa: S606 (ourselves)
for seed in map(int, sys.argv[1:]):
    story = told(seed)
    lines = [*story.steps, f"seed {seed} ({story.profile}): {story.broken or 'sound'}, {dict(story.counts)}"]
    sys.stdout.write("\n".join(lines) + "\n")
