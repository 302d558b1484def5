"""The whole system on a live PostgreSQL, in one command, with a referee.

Starts the local stack, ingest and the daemon as separate processes, as in production, lets a small shop trade, and
judges the five promises by its own means. Nothing of the daemon or of ingest imports from here.
"""
