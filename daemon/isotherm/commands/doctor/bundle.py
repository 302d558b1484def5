"""The bundle of `isotherm doctor --bundle`: what somebody needs who is asked for help, in a zip, without a secret.

Nothing goes in as it lies on the disk: the configuration and the policies are written from what was read, so comments and
whatever is wrong with a file stay out. Everything goes through `Secrets` in the end.
"""

import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from isotherm.commands.doctor.daemon_answers import asked
from isotherm.commands.doctor.hidden import shown
from isotherm.commands.doctor.subject import Subject
from isotherm.runtime.version import versions_text
from isotherm.service.ports import Unavailable
from isotherm.store.database import StoreError, StoreTrouble
from isotherm.store.folder import LEDGER

if TYPE_CHECKING:
    from isotherm.commands.doctor.show import Report

OPERATIONS = 200
"""Of the ledger, the newest."""
PACKAGES = (
    "pyiceberg",
    "pyarrow",
    "duckdb",
    "datafusion",
    "confluent-kafka",
    "pydantic",
    "sqlalchemy",
    "pyspark",
)


def refused(bundle: Path) -> str | None:
    """Why a bundle cannot be written there, or None."""
    if bundle.exists():
        return f"{bundle} is there already"
    return None if bundle.absolute().parent.is_dir() else f"there is no folder {bundle.absolute().parent}"


def write_bundle(bundle: Path, subject: Subject, report: "Report") -> None:
    """Write it. Raises Unavailable: it cannot be written."""
    try:
        descriptor = os.open(bundle, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, text in _contents(subject, report):
                # In JSON each text was looked at for itself; a number there is none that anybody typed.
                told = text if name.endswith(".json") else subject.secrets.without(text)
                packed.writestr(subject.secrets.without(name), told)
    except OSError as err:
        raise Unavailable(f"{bundle} cannot be written: {err.strerror}") from err


def _contents(subject: Subject, report: "Report") -> Iterator[tuple[str, str]]:
    secrets = subject.secrets

    def as_json(value: object) -> str:
        # Before JSON escapes letters: what is behind one would be taken for the end of the secret.
        return json.dumps(secrets.without_all(value), indent=2, default=str)

    yield "report.json", as_json(asdict(report))
    yield "configuration.json", as_json(shown(subject.config))
    yield "versions.txt", versions_text(PACKAGES)
    if subject.policies is not None:
        for name, file in subject.policies.files():
            yield f"policies/{name}.json", as_json(file.model_dump(mode="json", exclude_unset=True))
    for path in ("/readyz", "/metrics"):
        answer = asked(subject.config.http, path) if subject.config.http.port else None
        if answer is not None:
            yield f"{path[1:]}.txt", f"{answer[0]}\n{answer[1]}"
    if (operations := _operations(subject)) is not None:
        yield "ledger.json", as_json(operations)


def _operations(subject: Subject) -> list[object] | None:
    """What was done last, as the ledger has it; None where it cannot be read."""
    from isotherm.store.ledger import Ledger

    with suppress(StoreError, StoreTrouble):
        ledger = Ledger(subject.config.state.path / LEDGER, read_only=True)
        try:
            return [asdict(one) for one in ledger.operations(limit=OPERATIONS)]
        finally:
            ledger.close()
    return None
