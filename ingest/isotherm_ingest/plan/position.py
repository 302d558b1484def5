"""Where in Kafka: what offsets are kept by."""

Position = tuple[str, int]
"""A Kafka partition: topic and number."""
