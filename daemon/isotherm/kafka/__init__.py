"""Everything the daemon asks of the broker. Of the daemon, only this folder and `demo` import confluent_kafka."""
