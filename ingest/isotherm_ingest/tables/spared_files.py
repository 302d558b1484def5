"""What Iceberg would delete where a commit is refused."""


class Spared:
    """What Iceberg would delete, kept.

    Where a commit is refused, Iceberg deletes the manifests and manifest lists that it wrote for it. But a proxy, or
    Iceberg's own client after an answer 503, may have sent the request twice: the first copy has landed, the second one is
    refused, and its answer says nothing of the first. The snapshot would be there without its manifest list.
    """

    def __init__(self) -> None:
        self.paths: list[str] = []

    def accept(self, path: str) -> None:
        """Java's name for what it does with a path."""
        self.paths.append(path)

    class Java:
        """What Py4J asks for."""

        implements = ("java.util.function.Consumer",)
