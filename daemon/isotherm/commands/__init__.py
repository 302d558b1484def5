"""What people ask the daemon, and tell it: one module for each command, and what they share."""
