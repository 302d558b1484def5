"""The list of mutants."""

from mutants import of_commits, of_deletion, of_expiry, of_service

MUTANTS = of_deletion.MUTANTS + of_expiry.MUTANTS + of_commits.MUTANTS + of_service.MUTANTS
