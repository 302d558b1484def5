"""Events of other systems: one module each, which says where an event wants us to look.

A decoder is a pure function: bytes in, an `Announced` out, None where the message is one of that system's that names
no commit, `EventError` where it is none of that system's. It believes nothing and asks nobody: the relay looks up
what was named. A further system is one more module here, one more line below, and its name in `runtime.config.Format`.
"""

from collections.abc import Mapping

from isotherm.kafka.formats import kafka_connect
from isotherm.service.ports import Decoder

FORMATS: Mapping[str, Decoder] = {
    "iceberg-kafka-connect": kafka_connect.decode,
}
"""By the names that the configuration knows."""
