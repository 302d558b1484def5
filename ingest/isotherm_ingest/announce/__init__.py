"""What ingest tells others: every snapshot, and every MERGE before it plans."""
