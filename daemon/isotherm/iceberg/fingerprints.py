"""Many texts of which only this is asked: is that one among them? Each is held as a number, because a table has millions."""

from collections.abc import Iterable


class Numbered:
    """Texts, each as one number. Two texts may have the same: so what is not among them may seem to be.

    Whoever asks it puts what is *needed* in: then a file stays that might have gone, and none goes that has to stay.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._hashes = set(map(hash, texts))

    def __len__(self) -> int:
        return len(self._hashes)

    def __contains__(self, text: object) -> bool:
        return hash(text) in self._hashes

    def add_all(self, texts: Iterable[str]) -> None:
        """Take these in."""
        self._hashes.update(map(hash, texts))

    def discard_all(self, texts: Iterable[str]) -> None:
        """Take these out, and what has the same numbers."""
        self._hashes.difference_update(map(hash, texts))
