"""How programs end, for shells and supervisors: every exit code but 0, and who ends with it."""

EXIT_ERROR = 1
"""A command, or a daemon that could not do its work and may later."""
EXIT_SPARK_GONE = 1
"""ingest, where the driver's JVM died. Whoever started it starts it again; the tables know how far they are."""
EXIT_USAGE = 2
"""A command that was asked in a way that it does not know (`commands/terminal`)."""
EXIT_WORK_TO_DO = 3
"""`isotherm plan --exit-code`."""
EXIT_TAKEN_OVER = 3
"""ingest, where another driver of the pipeline has begun. To start this one again would only take the pipeline back."""
EXIT_FENCED = 69
"""The daemon; sysexits.h EX_UNAVAILABLE: the place is taken. Started again, the two would throw each other out for ever."""
EXIT_CRASHED = 70
"""The daemon; sysexits.h EX_SOFTWARE: a mistake of ours outside of any table. Starting again may help."""
EXIT_BAD_CONFIG = 78
"""sysexits.h EX_CONFIG: a file of a person's. `commands/terminal` says what is wrong with it; `daemon` where that is found later."""
EXIT_INTERRUPTED = 130
"""What a shell says of a program that was interrupted."""
