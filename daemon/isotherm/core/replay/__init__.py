"""A table's past under other rules: its history as values, and the planner on every moment of it."""
