"""Mistakes in how policies are read, and in what becomes of the tables of a broken file."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a table whose own policy file is broken falls to a general one",
        "core/policy/rulebook.py",
        "return name if weight >= max(good, default=weight) else None",
        "return None",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "tables are expired though a policy file of which nothing can be read may forbid it",
        "core/policy/rulebook.py",
        "unknown = [name for name, gap in self.gaps.items() if not gap.is_whole]",
        "unknown = list[str]()",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "a slip behind the tables of a policy file hides them",
        "service/policies/tables_of_broken_file.py",
        "name for name in self.tables if name]",
        "name for name in self.tables if name and is_yaml]",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "a policy file of which every key is misspelt is no policy",
        "service/policies/tables_of_broken_file.py",
        "_is_near(name, PolicyFile.model_fields)",
        "name in PolicyFile.model_fields",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "the names that a wrong indentation made one are not told apart",
        "service/policies/tables_of_broken_file.py",
        "for part in words(name)]",
        "for part in words(name) if not is_yaml]",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "one odd name of several tables is accepted",
        "core/policy/precedence.py",
        "if (trouble := trouble_of(name)) is not None:",
        "if (trouble := None) is not None:",
        "core/policy/test_policy.py::"
        "test_what_looks_like_several_names_is_refused_for_the_table_would_fall_to_a_general_file",
    ),
    Mutant(
        "a comment in the folder of policies stops deletion",
        "service/policies/tables_of_broken_file.py",
        "if is_yaml and not seen.is_other and not seen.is_policy:",
        "if False:",
        "service/policies/test_policies_never_good.py::test_a_file_that_never_was_good_leaves_its_tables_alone_at_every_start",
    ),
    Mutant(
        "a table is expired by a general file though a broken one between may keep more",
        "core/policy/rulebook.py",
        ' and "keep_for" in file.rules().get("expire", {})',
        "",
        "service/policies/test_policies_never_good.py::test_who_names_a_table_without_saying_how_long_to_keep_leaves_that_to_the_broken_file",
    ),
    Mutant(
        "a reload that failed half way is taken for done",
        "service/policies/policy_folder.py",
        "setattr(self, name, getattr(before, name))",
        "pass",
        "service/policies/test_policy_reload.py::"
        "test_a_reload_that_fails_half_way_leaves_the_old_policy_in_force_and_is_done_again",
    ),
    Mutant(
        "of a table that a broken file leaves alone it is said that no policy matches",
        "core/policy/rulebook.py",
        "return NO_MATCH if broken is None else",
        "return NO_MATCH if True else",
        "service/test_setbacks.py::test_a_compaction_that_a_broken_file_stops_says_which",
    ),
    Mutant(
        "the policy of an earlier version is forgotten, and its tables with it",
        "service/policies/policy_folder.py",
        "dict(sorted((self._lost | {name: held.text for name, held in self._held.items()}).items()))",
        "dict(sorted({name: held.text for name, held in self._held.items()}.items()))",
        "service/policies/test_policies_never_good.py::test_what_another_version_understood_leaves_its_tables_alone_at_every_start_and_holds_after_a_downgrade",
    ),
    Mutant(
        "work begins under a folder that is still being filled",
        "service/policies/policy_folder.py",
        "return bool(known) and self._calm < 2 and not self._is_as_known(looks, known)",
        "return False",
        "service/policies/test_policy_reload.py::test_nothing_begins_after_a_restart_before_the_folder_has_settled",
    ),
    Mutant(
        "work begins under policies of before a restart though the folder is another by now",
        "service/rounds/rounds.py",
        "if self._may_begin and self._is_ruled and self.owned.ask_again():",
        "if self._may_begin and self.owned.ask_again():",
        "service/policies/test_policy_reload.py::test_a_policy_that_was_changed_while_the_daemon_was_down_is_waited_for",
    ),
)
