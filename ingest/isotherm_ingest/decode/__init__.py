"""What a message says: raw messages in, rows in the table's types out. Values in, values out; no Spark, no clock."""
