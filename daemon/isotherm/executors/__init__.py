"""Executors: they write files, and nothing else. What they wrote counts when the committer swaps it in."""
