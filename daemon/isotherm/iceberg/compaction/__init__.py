"""A compaction from its request to its fate: bound to files, rewritten in a process of its own, proved, committed.

What writes files does nothing else. What it wrote counts when the committer swaps it in.
"""
