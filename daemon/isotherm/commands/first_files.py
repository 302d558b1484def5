"""What `isotherm init` writes, as text."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from isotherm.commands.look_findings import Lake as LookedAt
from isotherm.commands.look_findings import Looked, gains, held
from isotherm.core.model.decisions import Verdict
from isotherm.core.policy.patterns import specificity, trouble_of
from isotherm.runtime.text import counted, printable

CONFIG, CATALOG_SECRETS, POLICY = "isotherm.yaml", "catalog-secrets.yaml", "policies/first.yaml"
MOST_TABLES = 500
"""Tables that are written down; a policy file may have a hundred kilobytes."""
MOST_SAID = 200
"""Characters of one comment."""


@dataclass(frozen=True, slots=True)
class Lake:
    """How it is reached."""

    catalog: str
    properties: Mapping[str, str]
    hidden: Mapping[str, str]
    """Properties that may be secret."""
    kafka: str
    is_kafka_known: bool


def configuration(lake: Lake) -> str:
    """`isotherm.yaml`."""
    properties = "".join(f"    {one}: {_quoted(text)}\n" for one, text in lake.properties.items())
    described = (
        f"  properties:\n{properties}"
        if properties
        else "  # Described in .pyiceberg.yaml: the daemon's user needs that file in its home, too.\n"
    )
    hidden = (
        f"  # What may be secret; for a service better a mounted secret. What stands there wins.\n"
        f"  properties_from: {CATALOG_SECRETS}\n"
        if lake.hidden
        else "  # properties_from: /run/secrets/catalog.yaml  # more of them, for instance keys\n"
    )
    kafka = "" if lake.is_kafka_known else "    # Nobody said where it is: put a broker of yours here.\n"
    return f"""\
# isotherm.yaml: one file for the daemon's process, written by `isotherm init`.
# Unknown keys are refused. Relative paths are relative to this file. A key comes from the environment, too:
# ISOTHERM_HTTP__PORT=0. What else there is, with every default: deploy/isotherm.yaml of the project.

# The Iceberg catalog, as PyIceberg knows it. Spark must call it the same, where both use a JDBC or SQL catalog.
catalog:
  name: {_quoted(lake.catalog)}
{described}{hidden}
# The daemon reads the control topic, and announces its own commits on it. It makes its topics by itself, if it may:
# isotherm.control (events, kept 7 days), isotherm.control.state (halts) and isotherm.control.readers (both compacted).
kafka:
  properties:
{kafka}    bootstrap.servers: {_quoted(lake.kafka)}
    # security.protocol: SASL_SSL
    # sasl.mechanism: SCRAM-SHA-512
    # sasl.username: isotherm
  # properties_from: /run/secrets/kafka.yaml  # sasl.password, for instance

# A folder on a local disk, of this daemon alone: ledger.db in it is worth a backup (`isotherm ledger backup`).
state:
  path: state

# /metrics, /livez and /readyz.
http:
  host: 127.0.0.1
  port: 9464

# Rules about tables are there, and only there. Files are read again whenever they change.
policies: policies
"""


def secrets(hidden: Mapping[str, str]) -> str:
    """The file of the catalog's properties that may be secret."""
    lines = "".join(f"{_quoted(name)}: {_quoted(text)}\n" for name, text in hidden.items())
    return f"# Properties of the catalog that may be secret. isotherm.yaml names this file (properties_from).\n{lines}"


def policy(looked: LookedAt) -> str:
    """The first policy: one table, and nothing is deleted."""
    return f"""\
# A first policy, written by `isotherm init`. It compacts what is cold, and deletes nothing but what failed jobs wrote.
#
#   isotherm plan            once the daemon runs: what would be done now, and why not the rest
#   isotherm policy show T   what holds for a table, and where each value comes from
#
# Every field that is not here has its built-in default: policies/default.yaml of the project has them all.

tables:
{"".join(_tables(looked))}
# As a beginning nothing is deleted. Take these out, one after the other, once you trust what `plan` says.
expire: {{enabled: false}} # snapshots stay; by default those go that are older than 7 days, but for the last 20
metadata: {{enabled: false}} # old metadata.json files stay
orphans: {{mode: "off"}} # nobody looks for files that nothing needs; `report` counts them
"""


def _tables(looked: LookedAt) -> Iterator[str]:
    """The names, the worst first; only the first one is in force."""
    good = [one for one in looked.tables if trouble_of(one.table) is None and specificity(one.table)[0]]
    if not good:
        yield '  # The catalog has no table yet that could be named here.\n  - "*"\n'
    for place, one in enumerate(good[:MOST_TABLES]):
        for said in _about(one):
            yield f"  # {printable(said)[:MOST_SAID]}\n"
        yield f"  {'- ' if place == 0 else '# - '}{_quoted(one.table)}\n"
        if place == 0 and len(good) > 1:
            yield '  # To maintain another one, take the # before its name away. Or all of them: "*".\n'
    if len(good) > MOST_TABLES:
        yield f"  # … and {len(good) - MOST_TABLES:,} more: `isotherm look` lists them.\n"
    for other in looked.unread:
        yield f"  # could not be read: {printable(str(other))[:MOST_SAID]}\n"


def _about(one: Looked) -> Iterator[str]:
    """What `look` has learned of a table."""
    yield f"{one.table}: {', '.join(held(one))}"
    yield from gains(one.examination)
    hot = one.examination.verdicts.get(Verdict.HOT, 0)
    if hot:
        yield f"{counted(hot, 'partition')} would be hot now: the stream is there, or was a moment ago"


def _quoted(text: str) -> str:
    """A text as YAML reads it back, whatever is in it."""
    return json.dumps(text)
