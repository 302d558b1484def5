"""What is read next: where each table stands, which topics are due, and how much of each. Values only, no client."""
