"""Real servers without containers, for the demo, the tests and the benchmarks.

PostgreSQL from its wheel, Kafka (one KRaft node) and Kafka Connect with Debezium from locked jars. Everything
binds to 127.0.0.1, on ports that the system chose, keeps its data under one folder, and dies with the process
that started it. None of this is meant for production: no replication, no fsync, one of each.
"""

from isotherm.demo.stack.connect import Connect
from isotherm.demo.stack.errors import StackError
from isotherm.demo.stack.jars import jar_paths
from isotherm.demo.stack.java import find_java
from isotherm.demo.stack.kafka import Kafka
from isotherm.demo.stack.postgres import Postgres
from isotherm.demo.stack.process import Process
from isotherm.demo.stack.stack import Stack

__all__ = ["Connect", "Kafka", "Postgres", "Process", "Stack", "StackError", "find_java", "jar_paths"]
