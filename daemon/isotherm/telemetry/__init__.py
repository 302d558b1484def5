"""What the daemon says of itself to machines: metrics, and health over HTTP."""
