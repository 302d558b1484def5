"""The Spark SQL that finds the rows of keys; text in, text out."""
