"""What `isotherm-ingest` answers beside a running driver: read only, without Spark."""
