"""The nouns that every other module speaks of, by what they are about.

Values only. Nothing here reads a clock, a file or a network; a value never changes, it is replaced.
"""
