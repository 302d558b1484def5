"""`isotherm init`: a configuration and a first policy, for the catalog that it is shown.

It looks at the lake as `look` does and writes down what it learned, in words. The first policy names one table, the one
that would gain most, and deletes nothing; the others stand below it, to be uncommented. No file is overwritten. What
may be a secret goes into a file of its own that nobody else may read.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer
from rich.text import Text

from isotherm.commands.doctor.checks import Check, Finding, made
from isotherm.commands.doctor.hidden import HARMLESS, HIDDEN, shown_address
from isotherm.commands.first_files import (
    CATALOG_SECRETS,
    CONFIG,
    POLICY,
    Lake,
    configuration,
    policy,
    secrets,
)
from isotherm.commands.look import FORMS, connected, look, pair
from isotherm.commands.look_findings import Lake as Looked
from isotherm.commands.pyiceberg_file import reading_its_own_file
from isotherm.commands.terminal import err, out, plain_errors
from isotherm.core.policy.precedence import BUILT_IN, PolicyFile
from isotherm.runtime.clock import now_ms
from isotherm.runtime.config import CatalogConfig, load_config
from isotherm.runtime.text import counted
from isotherm.service.policies.policy_folder import in_force
from isotherm.service.ports import Unavailable

TIMEOUT_S = 8.0
"""For one answer: a wrong address is told within ten seconds."""
NO_KAFKA = "localhost:9092"


def write_first_files(folder: Path, *, catalog: str, properties: Sequence[str], kafka: str | None) -> None:
    """Look at the lake, and write the files."""
    if not catalog:
        raise typer.BadParameter("a catalog has a name", param_hint="--catalog")
    config = CatalogConfig(name=catalog, properties=dict(pair(one) for one in properties))
    with plain_errors():
        _refuse_to_overwrite(folder)
        with reading_its_own_file():  # takes seconds on a busy machine, and is no fault of an address
            import isotherm.iceberg.catalog  # noqa: F401
        uri = shown_address(config.properties.get("uri", f"{catalog} of ~/.pyiceberg.yaml"))
        _within_ten_seconds(f"the catalog {uri}", lambda: _ask(config), f"forms of --catalog-uri: {FORMS}")
        if kafka is not None:
            remedy = "--kafka HOST:PORT of a broker; leave it out to fill it in later"
            _within_ten_seconds(f"Kafka at {kafka}", lambda: _ask_brokers(kafka), remedy)
        found = connected(config)
        looked = look(found, [], catalog, PolicyFile(tables=["*"]), BUILT_IN, now_ms())
        _write(folder, config, kafka, looked)
        _read_back(folder)
        _tell(folder, kafka, looked)


def _ask(config: CatalogConfig) -> None:
    connected(config.model_copy(update={"timeout_s": TIMEOUT_S})).ask()


def _ask_brokers(kafka: str) -> None:
    from isotherm.kafka.broker_look import BrokerLook

    BrokerLook({"bootstrap.servers": kafka}).brokers()


def _within_ten_seconds(what: str, ask: Callable[[], None], remedy: str) -> None:
    """Ask, and raise Unavailable with the remedy, however the other side hangs."""

    def asked() -> Iterator[Finding]:
        ask()
        yield from ()

    for one in made(Check(what, asked, remedy)):
        # Where nothing says where the catalog is, what was found says what to do.
        more = "" if FORMS in one.found else f"\n→ {remedy}"
        raise Unavailable(f"{what}: {one.found}{more}")


def _refuse_to_overwrite(folder: Path) -> None:
    for name in (CONFIG, CATALOG_SECRETS, POLICY):
        if (folder / name).exists():
            raise Unavailable(
                f"{folder / name} is there already, and nothing is overwritten: name another folder, or move it away"
            )


def _write(folder: Path, config: CatalogConfig, kafka: str | None, looked: Looked) -> None:
    """All files, or as many as could be made."""
    open_to_all = {name: text for name, text in config.properties.items() if _is_harmless(name, text)}
    hidden = {name: text for name, text in config.properties.items() if name not in open_to_all}
    lake = Lake(config.name, open_to_all, hidden, kafka or NO_KAFKA, is_kafka_known=kafka is not None)
    try:
        (folder / POLICY).parent.mkdir(parents=True, exist_ok=True)
        _put(folder / CONFIG, configuration(lake), 0o640)
        if hidden:
            _put(folder / CATALOG_SECRETS, secrets(hidden), 0o600)
        _put(folder / POLICY, policy(looked), 0o644)
    except OSError as error:
        raise Unavailable(f"{error.filename or folder} cannot be written: {error.strerror}") from error


def _is_harmless(name: str, text: str) -> bool:
    return name in HARMLESS and HIDDEN not in shown_address(text)


def _put(path: Path, text: str, mode: int) -> None:
    path.touch(mode=mode, exist_ok=False)
    path.write_text(text, encoding="utf-8")


def _read_back(folder: Path) -> None:
    """What was written is what the program understands. Raises ConfigError."""
    config = load_config(folder / CONFIG, environ={})
    complaints = in_force(config.policies, {}).complaints
    if complaints:
        raise Unavailable(f"what was written cannot be read back: {'; '.join(complaints)}")


def _tell(folder: Path, kafka: str | None, looked: Looked) -> None:
    out.print(f"{folder / CONFIG}: the catalog, Kafka, and what most people change")
    if (folder / CATALOG_SECRETS).exists():
        out.print(f"{folder / CATALOG_SECRETS}: properties of the catalog that may be secret, for you alone")
    out.print(f"{folder / POLICY}: {_about(looked)}")
    if kafka is None:
        err.print(
            Text(
                f"Nobody said where Kafka is: put it in the place of {NO_KAFKA}, or say --kafka.",
                style="yellow",
            )
        )
    out.print("\nNext:")
    for command in ("doctor", "policy validate", "run"):
        out.print(f"    isotherm {command} --config {folder / CONFIG}", soft_wrap=True)


def _about(looked: Looked) -> str:
    tables = looked.tables
    if not tables:
        return "for all tables, because there is none yet"
    return f"for {tables[0].table}, the first of {counted(len(tables), 'table')}; nothing is deleted"
