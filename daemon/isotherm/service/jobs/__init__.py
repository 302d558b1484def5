"""Work on tables, from request to outcome, and what may stand against it."""
