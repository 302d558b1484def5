"""The partition of a topic: what offsets are kept by."""

Position = tuple[str, int]
"""A Kafka partition: topic and number."""
