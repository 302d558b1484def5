"""Executors: they write files, and nothing else. What they wrote counts when the committer swaps it in.

One executor is built in (`LocalExecutor`); another one stands beside it with the same methods.
"""

from .local import LocalExecutor
from .rewrite import Failure, FailureKind, data_location, leftovers

__all__ = ["Failure", "FailureKind", "LocalExecutor", "data_location", "leftovers"]
