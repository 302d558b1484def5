"""What the daemon, ingest and every other writer have agreed on; changing it changes all of them."""
