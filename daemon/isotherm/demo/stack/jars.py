"""The jars of Spark, Kafka and Kafka Connect: resolved and locked by jgo, kept in Maven's local repository.

A list is a folder of deploy/jars with `jgo.toml` (what we ask for) and `jgo.lock.toml` (every jar that follows
from it, with its sha256). Running needs the lock alone: no resolving, and no network once the jars are there.
`make lock` makes the locks again.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import tenacity

from isotherm.demo.stack.errors import StackError

LISTS = ("spark", "kafka", "connect", "iceberg-sink", "rest-catalog", "flink", "mariadb", "registry")
LISTS_FOLDER = Path(__file__).resolve().parents[4] / "deploy" / "jars"
"""In a checkout. The stack is for people who have one; the daemon never needs a jar."""
TIMEOUT_S = 60
DOWNLOADS_AT_ONCE = 4
"""Most jars are small, and a request across an ocean takes longer than its answer."""
NO_TIME = datetime.fromtimestamp(0, UTC)
"""jgo writes when it locked; a constant keeps the file the same as long as the jars are."""

Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    """Tell the person at the terminal."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def jar_paths(name: str, stamps: Path, say: Say = say_on_stderr, lists: Path = LISTS_FOLDER) -> list[Path]:
    """The jars of a list, there and checked against the lock's hashes; what is missing is downloaded.

    The check is done once: a file in `stamps` remembers which files it was done for.

    Raises:
        StackError: the lock is stale, a jar cannot be had, or is not the one that was locked.
    """
    folder = lists / name
    lock = _read(folder / "jgo.lock.toml")
    stamp = stamps / f"jars-{name}.json"
    fingerprint = sha256(lock + _read(folder / "jgo.toml")).hexdigest()
    known = _stamped(stamp, fingerprint)
    if known is not None:
        return known
    jars = _resolve(name, folder, say)
    stamps.mkdir(parents=True, exist_ok=True)
    content = {"fingerprint": fingerprint, "jars": [[str(jar), *_look(jar)] for jar in jars]}
    _replace_text(stamp, json.dumps(content, indent=1))
    return jars


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as err:
        raise StackError(f"{path} is missing: the local stack needs a checkout of the repository") from err


def _replace_text(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _look(jar: Path) -> tuple[int, int]:
    status = jar.stat()
    return status.st_size, status.st_mtime_ns


def _stamped(stamp: Path, fingerprint: str) -> list[Path] | None:
    """The jars of the stamp, if it was made for this lock and no file has changed since."""
    try:
        content = json.loads(stamp.read_text(encoding="utf-8"))
        if content["fingerprint"] != fingerprint:
            return None
        jars = [(Path(path), (size, changed)) for path, size, changed in content["jars"]]
        return [jar for jar, _ in jars] if all(_look(jar) == seen for jar, seen in jars) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _resolve(name: str, folder: Path, say: Say) -> list[Path]:
    # jgo brings requests along: a third of a second that a stamped start need not pay.
    from jgo.env import LockFile, compute_spec_hash

    lock = LockFile.load(folder / "jgo.lock.toml")
    if lock.spec_hash != compute_spec_hash(folder / "jgo.toml"):
        raise StackError(f"{folder / 'jgo.lock.toml'} does not belong to its jgo.toml: run `make lock`")
    context = _context()
    wanted = [(_artifact(context, dependency), str(dependency.sha256)) for dependency in lock.dependencies]
    missing = [artifact for artifact, digest in wanted if _digest(artifact.cached_path) != digest]
    if missing:
        say(f"downloading {len(missing)} of {len(wanted)} jars for {name} (only this once) …")
        _download_all([(artifact, digest) for artifact, digest in wanted if artifact in missing])
    return [artifact.cached_path for artifact, _ in wanted]


def _context(repo_cache: Path | None = None) -> Any:
    """Where jgo looks, with the mirrors and the cache that the person has set for it."""
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    settings = GlobalSettings.load()
    remotes = dict(settings.repositories)
    return MavenContext(
        repo_cache=repo_cache or settings.repo_cache, remote_repos=remotes or None, timeout=TIMEOUT_S
    )


def _artifact(context: Any, dependency: Any) -> Any:
    component = context.project(dependency.groupId, dependency.artifactId).at_version(dependency.version)
    return component.artifact(dependency.classifier or "", dependency.packaging)


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as jar:
            digest = sha256()
            while block := jar.read(1 << 20):
                digest.update(block)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


def _download_all(wanted: list[tuple[Any, str]]) -> None:
    pool = ThreadPoolExecutor(DOWNLOADS_AT_ONCE, thread_name_prefix="jars")
    try:
        for download in [pool.submit(_download, artifact, digest) for artifact, digest in wanted]:
            download.result()
    finally:
        # After a failure or Ctrl-C: those that have begun end, the others do not begin.
        pool.shutdown(cancel_futures=True)


@tenacity.retry(
    retry=tenacity.retry_if_not_exception_type(StackError),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_exponential(multiplier=0.5, max=10),
    retry_error_callback=lambda state: _give_up(state.args[0], state.outcome),
)
def _download(artifact: Any, digest: str) -> None:
    """Download beside the cache, check, and move it in: a download that broke off leaves no half jar there."""
    target: Path = artifact.cached_path
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".isotherm-", dir=target.parent) as staging:
        context = _context(Path(staging))
        component = context.project(artifact.groupId, artifact.artifactId).at_version(artifact.version)
        fresh: Path = component.artifact(artifact.classifier, artifact.packaging).resolve()
        found = _digest(fresh)
        if found != digest:
            raise StackError(
                f"{artifact} is not the jar that was locked: sha256 is {found}, should be {digest}"
            )
        fresh.replace(target)


def _give_up(artifact: Any, outcome: Any) -> None:
    raise StackError(f"{artifact} cannot be downloaded: {outcome.exception()}") from outcome.exception()


def lock(names: Iterable[str] = LISTS, say: Say = say_on_stderr, lists: Path = LISTS_FOLDER) -> None:
    """Resolve the lists again and write their locks. Needs the network."""
    from jgo.env import EnvironmentSpec, LockFile, compute_spec_hash
    from jgo.parse import Coordinate

    for name in names:
        folder = lists / name
        spec = EnvironmentSpec.load(folder / "jgo.toml")
        context = _context()
        excluded = [context.project(*pattern.split(":")) for pattern in spec.exclusions]
        asked = [context.create_dependency(Coordinate.parse(text), excluded) for text in spec.coordinates]
        # What is no jar is a whole program: all that it needs is within.
        chosen = [found for found in asked if found.type != "jar"]
        if jars := [found for found in asked if found.type == "jar"]:
            direct, transitive = context.resolver.resolve(jars)
            chosen += [*direct, *(found for found in transitive if found.scope in {"compile", "runtime"})]
        locked = LockFile.from_resolved_dependencies(
            sorted(chosen, key=lambda found: found.artifact.key),
            environment_name=spec.name,
            spec_hash=compute_spec_hash(folder / "jgo.toml"),
        )
        locked.generated = NO_TIME
        locked.save(folder / "jgo.lock.toml")
        say(f"{name}: {len(chosen)} jars locked")
