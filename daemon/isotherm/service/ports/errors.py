"""What an adapter answers when it cannot do what was asked."""


class Unavailable(Exception):  # noqa: N818 (it says what is)
    """Something outside does not answer now; try later, nothing is lost."""


class NotAsked(Unavailable):
    """It did not answer lately, so it was not asked again: nothing new, and nothing to tell."""


class NotYetKnown(Unavailable):
    """What must be known first is being found out, beside the loop: ask again later. Nothing is away."""


class StoreAway(Unavailable):
    """The store with a table's files does not answer, or not as it should."""


class TableSilent(Unavailable):
    """The catalog answers, but says nothing about this table. It may wait for something behind itself."""


class NotAnnounced(Unavailable):
    """The control topic does not take a snapshot's announcement. Nothing is wrong with the table."""


class Unreadable(Unavailable):
    """The catalog has the table and nothing can be made of it: a damaged file, or a format of a later version.

    It is not gone: nothing that is known of it is thrown away.
    """


class TooLong(Unreadable):
    """The same, because there is so much to read that it was given up."""


class Refused(Unavailable):
    """What was asked for was refused, and other things may not be: a right is missing for one table."""


class NoWord(Unavailable):
    """There is an answer, and it says nothing of what was asked for: a mistake in the server, or a word on who asks."""


class Fenced(Exception):  # noqa: N818 (it says what is)
    """Another process has taken this daemon's place in the group: there is nothing left to do but to end."""


class TableMissing(Exception):  # noqa: N818 (it says what is)
    """The catalog says that it has no such table; or the table that it has no such snapshot."""


class UnknownTable(Exception):  # noqa: N818 (said to a person, as the two above)
    """The daemon knows no such table, or partition; the text names the nearest."""
