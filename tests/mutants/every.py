"""The list of mutants."""

from mutants import of_commits, of_deletion, of_expiry

MUTANTS = of_deletion.MUTANTS + of_expiry.MUTANTS + of_commits.MUTANTS
