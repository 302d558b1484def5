"""The folder of policies: read, taken as a whole, and read again."""
