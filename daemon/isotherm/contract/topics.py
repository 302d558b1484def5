"""Properties of the control topic on which all producers must agree, whatever language they are written in."""

CONTROL_PARTITIONS = 8
"""Partitions of the control topic where one of the two halves makes it: so many daemons can divide the tables."""

PARTITIONER = "murmur2_random"
"""The JVM's default for keyed messages, so that every producer puts a table into the same Kafka partition."""
