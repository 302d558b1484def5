"""Planning rounds: which table is looked at, what is due, and what begins."""
