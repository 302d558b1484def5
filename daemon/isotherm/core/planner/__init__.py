"""What should be done, and why not the rest: the same functions for the service and for every command."""
