"""What a person is asked for first who reports that something is wrong."""

_WITH = ("pyiceberg", "pyarrow", "duckdb", "pyspark")


def versions_text(packages: tuple[str, ...] = _WITH) -> str:
    """The versions of this program, of Python and of some libraries, each on a line."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    lines = [
        f"isotherm {version('isotherm')}",
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    ]
    for package in packages:
        try:
            lines.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            lines.append(f"{package} is not installed")
    return "\n".join(lines)
