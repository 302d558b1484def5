"""The Spark SQL that decodes, merges and appends; text in, text out."""
