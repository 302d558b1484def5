"""Which tables the catalog has, and where they lie: the looks at all of them, and what they have not shown."""

from isotherm.service.survey.second_entries import SecondEntries
from isotherm.service.survey.survey import Survey
from isotherm.service.survey.whereabouts import place

__all__ = ["SecondEntries", "Survey", "place"]
