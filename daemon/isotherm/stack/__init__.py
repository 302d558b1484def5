"""Real servers without containers, for the demo, the tests and the benchmarks.

PostgreSQL from its wheel, Kafka (one KRaft node) and Kafka Connect with Debezium from locked jars. Everything
binds to 127.0.0.1, on ports that the system chose, keeps its data under one folder, and dies with the process
that started it. None of this is meant for production: no replication, no fsync, one of each.
"""

from isotherm.stack.connect import Connect
from isotherm.stack.errors import StackError
from isotherm.stack.jars import jar_paths
from isotherm.stack.java import find_java
from isotherm.stack.kafka import Kafka
from isotherm.stack.postgres import Postgres
from isotherm.stack.process import Process
from isotherm.stack.stack import Stack

__all__ = ["Connect", "Kafka", "Postgres", "Process", "Stack", "StackError", "find_java", "jar_paths"]
