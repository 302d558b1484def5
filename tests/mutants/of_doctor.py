"""Mistakes in what `doctor` and `init` say and write."""

from mutants.mutant import Mutant

CHECKS = "commands/doctor/checks.py"
HIDDEN = "commands/doctor/hidden.py"
FIGHTS = "commands/doctor/fights.py"
BUNDLE = "commands/doctor/bundle.py"
SHOW = "commands/doctor/show.py"
INIT = "commands/init.py"
FILES = "commands/first_files.py"
OF_CHECKS = "commands/test_doctor_checks.py::"
OF_HIDDEN = "commands/test_doctor_hidden.py::"
OF_FIGHTS = "commands/test_doctor_fights.py::"
OF_DOCTOR = "commands/test_doctor.py::"
OF_SECRETS = "commands/test_doctor_secrets.py::"
OF_INIT = "commands/test_init.py::"

MUTANTS = (
    Mutant(
        "what a check raises ends the doctor",
        CHECKS,
        "            came.put(wrong(*_told(err, check.remedy)))",
        "            raise",
        OF_CHECKS + "test_what_a_check_raises_is_what_it_has_found",
    ),
    Mutant(
        "a check that hangs is taken for one that found nothing",
        CHECKS,
        "            yield Found(check.subject, Mark.WRONG, given_up,",
        "            yield Found(check.subject, Mark.UNKNOWN, given_up,",
        OF_CHECKS + "test_a_check_that_hangs_is_given_up_and_says_what_to_do",
    ),
    Mutant(
        "a property that nobody has heard of is shown",
        HIDDEN,
        "if name in HARMLESS else HIDDEN",
        'if name in HARMLESS or "." in name else HIDDEN',
        OF_HIDDEN + "test_every_key_is_shown_and_only_harmless_properties_have_a_value",
    ),
    Mutant(
        "a password with a slash or an @ in it is shown with the rest of its address",
        HIDDEN,
        'user, at, place = rest.rpartition("@")\n    return',
        'user, at, place = rest.partition("@")\n    return',
        OF_HIDDEN + "test_an_address_is_shown_without_who_asks_and_its_query",
    ),
    Mutant(
        "a secret that a client writes as an address does is left in a text",
        HIDDEN,
        'for spelled in (one, quote(one), quote(one, safe=""), unquote(one))',
        "for spelled in (one,)",
        OF_HIDDEN + "test_whatever_may_be_secret_is_taken_out_of_a_text",
    ),
    Mutant(
        "the keys of the environment are left in texts",
        HIDDEN,
        "self._note(_of_the_environment(os.environ))",
        "self._note(())",
        OF_HIDDEN + "test_so_are_those_of_the_environment_and_of_a_cluster",
    ),
    Mutant(
        "what a daemon answers goes into the bundle as it came",
        BUNDLE,
        'told = text if name.endswith(".json") else subject.secrets.without(text)',
        "told = text",
        OF_SECRETS + "test_wherever_one_can_stand",
    ),
    Mutant(
        "the ledger goes into the bundle as it stands",
        BUNDLE,
        'yield "ledger.json", as_json(operations)',
        'yield "ledger.json", json.dumps(operations, default=str)',
        OF_SECRETS + "test_wherever_one_can_stand",
    ),
    Mutant(
        "everybody may read the bundle",
        BUNDLE,
        "0o600",
        "0o644",
        OF_DOCTOR + "test_the_bundle_has_what_helps_and_is_for_its_owner_alone",
    ),
    Mutant(
        "the exit code says that all is well, whatever was found",
        SHOW,
        "return EXIT_ERROR if wrong else 0",
        "return 0",
        OF_DOCTOR + "test_each_line_says_what_was_found_and_what_to_do",
    ),
    Mutant(
        "a folder that only begins like the table's own is taken for its own",
        FIGHTS,
        'home = normalised(loaded.facts.location).rstrip("/") + "/"',
        'home = normalised(loaded.facts.location).rstrip("/")',
        OF_FIGHTS + "test_what_a_property_does",
    ),
    Mutant(
        "who rewrote a table's files once is somebody to stop for ever",
        FIGHTS,
        "now_ms - snapshot.committed_at_ms > LATELY_MS",
        "False",
        OF_FIGHTS + "test_somebody_else_who_rewrites_its_files_is_told_and_lately_for_a_person",
    ),
    Mutant(
        "init writes a password into the configuration",
        INIT,
        "return name in HARMLESS and HIDDEN not in shown_address(text)",
        "return True",
        OF_INIT + "test_what_may_be_secret_is_in_a_file_for_its_owner_alone",
    ),
    Mutant(
        "init begins to write where one of its files is there",
        INIT,
        "for name in (CONFIG, CATALOG_SECRETS, POLICY):",
        "for name in (CONFIG,):",
        OF_INIT + "test_no_file_is_overwritten_and_then_none_is_written",
    ),
    Mutant(
        "the first policy maintains every table that it names",
        FILES,
        "'- ' if place == 0 else '# - '",
        "'- ' if place >= 0 else '# - '",
        OF_INIT + "test_tables_with_odd_names_break_no_file",
    ),
    Mutant(
        "the first policy deletes",
        FILES,
        "expire: {{enabled: false}}",
        "expire: {{enabled: true}}",
        OF_INIT + "test_what_it_writes_is_read_back_and_names_one_table_of_which_nothing_is_deleted",
    ),
)
