"""The Spark half of Isotherm: change streams from Kafka into Iceberg, exactly once, every snapshot announced."""
