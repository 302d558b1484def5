"""From a micro-batch to its tables: which message belongs where, and what is tried again."""
