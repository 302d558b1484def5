"""Mutants of what people on call read: how tables stand, what fails, by which policy, and who removed a file."""

from mutants.mutant import Mutant

BOARD = "telemetry/test_board.py::test_tables_stand_by_what_was_told_of_them_worst_first"
TABLES = (
    "commands/test_tables.py::"
    "test_a_table_that_another_daemon_took_over_is_its_own_though_the_stores_still_have_it"
)

MUTANTS = (
    Mutant(
        "a table whose first look fails is listed nowhere",
        "service/rounds/rounds.py",
        "self.fold.keep_troubles(found, self.now_ms())",
        "self.fold.keep_troubles({}, self.now_ms())",
        "commands/test_commands.py::test_a_table_whose_first_look_fails_is_listed_with_the_reason_until_one_goes_well",
    ),
    Mutant(
        "what somebody else removed is laid at the daemon's door",
        "audit/missing_files.py",
        "if name not in removed:",
        "if False:",
        "audit/test_evidence_reader.py::test_only_what_the_ledger_says_is_laid_at_the_daemons_door",
    ),
    Mutant(
        "what the daemon removed is somebody else's",
        "audit/missing_files.py",
        "name = normalised(path)",
        "name = path",
        "audit/test_evidence_reader.py::test_only_what_the_ledger_says_is_laid_at_the_daemons_door",
    ),
    Mutant(
        "a hot table that owes nothing counts as hot",
        "telemetry/board.py",
        "owes_hot=planned.hot_score >= 1",
        "owes_hot=planned.hot > 0",
        BOARD,
    ),
    Mutant(
        "a table that went to another daemon is still told of",
        "telemetry/board.py",
        "self._tables.pop(what.table.name, None)",
        "pass",
        BOARD,
    ),
    Mutant(
        "another daemon's table counts as this one's",
        "commands/tables.py",
        "if line.name in elsewhere:",
        "if False:",
        TABLES,
    ),
)
