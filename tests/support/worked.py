"""The stores of a daemon that has worked, and a configuration that names them: what commands look at."""

import yaml

from support.lab import Lab


def configured(lab):
    """Write the lab's `isotherm.yaml`. Its broker is none that anybody could reach."""
    config = {
        "catalog": {"properties": lab.properties},
        "kafka": {"properties": {"bootstrap.servers": "127.0.0.1:1"}},
    }
    path = lab.root / "isotherm.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def worked_in(root):
    """A lab with a table of which hours 1 and 2 were left, 1 is compacted, 3 and 4 are hot."""
    lab = Lab(root)
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 3, 4):
        lab.append(table, hour)
    lab.settled().stop()
    configured(lab)
    return lab
