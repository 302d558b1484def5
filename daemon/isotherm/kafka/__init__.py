"""Everything that touches the broker: only this folder imports confluent_kafka."""
