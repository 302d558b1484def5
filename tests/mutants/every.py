"""The list of mutants."""

from itertools import chain

from mutants import of_commits, of_deletion, of_edges, of_expiry, of_minor, of_service, of_survey

MUTANTS = tuple(
    chain.from_iterable(
        part.MUTANTS
        for part in (of_deletion, of_expiry, of_commits, of_service, of_survey, of_edges, of_minor)
    )
)
