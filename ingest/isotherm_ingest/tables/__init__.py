"""One table: made, fitted to its stream, written exactly once, and how far its stream has come."""
