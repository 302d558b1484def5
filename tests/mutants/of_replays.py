"""Mistakes in what becomes of dead letters that are replayed."""

from mutants.mutant import Mutant

LATE = "isotherm_ingest/workers/late.py"
DECODING = "isotherm_ingest/workers/decoding.py"
CHOOSING = "isotherm_ingest/replay/choosing.py"
WRITING = "isotherm_ingest/replay/writing.py"
SETTLED = "isotherm_ingest/replay/settled.py"
LOOKS = "isotherm_ingest/replay/looks.py"
HEARTBEAT = "isotherm_ingest/announce/heartbeat.py"
PORTION = "isotherm_ingest/tables/portion.py"
OF_WRITING = "ingest/replay/test_writing.py::"
OF_LETTERS = "ingest/replay/test_letters.py::"
OF_HEARTBEAT = "ingest/announce/test_heartbeat.py::"

MUTANTS = (
    Mutant(
        "a letter is written over a newer change of its key",
        WRITING,
        "with self._looks.look(replace(portion, late=late)) as seen:",
        "with self._looks.look(replace(portion, late=late), wanted(newer.values())) as seen:",
        OF_WRITING + "test_the_newest_change_of_a_key_stays",
    ),
    Mutant(
        "newer changes of a letter's key are not read",
        CHOOSING,
        "found[position] = (min(first, end), end)",
        "found[position] = (min(first, end), min(first, end) + 1)",
        OF_WRITING + "test_the_newest_change_of_a_key_stays",
    ),
    Mutant(
        "a value that only the letter tells is lost where a newer change keeps it",
        LATE,
        "for at in places if at is not None",
        "for at in places[:1] if at is not None",
        OF_WRITING + "test_a_value_that_newer_changes_leave_as_it_was_comes_from_the_letter",
    ),
    Mutant(
        "a letter with a key in two partitions is ordered by offsets of both",
        LATE,
        "OR min(number) {by} <> max(number) {by}",
        "OR false",
        OF_WRITING + "test_a_key_that_came_in_another_partition_is_not_decidable",
    ),
    Mutant(
        "other partitions of a letter's topic are not read",
        WRITING,
        "since = self._since(some) if stand.is_mirror else {}",
        "since = dict[Position, int]()",
        OF_WRITING + "test_a_key_that_came_in_another_partition_is_not_decidable",
    ),
    Mutant(
        "what retention took of another partition is thought to be older than the letter",
        CHOOSING,
        "if any(one[0] == letter.at[0] and one != letter.at[:2] for one in lost)",
        "if any(one[0] != letter.at[0] for one in lost)",
        OF_WRITING + "test_what_another_partition_may_have_lost_makes_letters_undecidable",
    ),
    Mutant(
        "a row that a bad letter took to another key comes back",
        DECODING,
        "left = table.late.with_applied(left, pa.concat_batches(bad))",
        "left = left.slice(0, 0)",
        OF_WRITING + "test_a_row_that_a_bad_letter_took_to_another_key_does_not_come_back",
    ),
    Mutant(
        "a bad letter that took its row to another key counts as written",
        LATE,
        "told = pa.array([APPLIED if one in applied else None for one in where], pa.string())",
        "told = pa.nulls(len(left), pa.string())",
        OF_WRITING + "test_a_row_that_a_bad_letter_took_to_another_key_does_not_come_back",
    ),
    Mutant(
        "of a newer letter only the key that was asked for is written",
        WRITING,
        "more = made.rows - mine - made.unsure",
        "more = frozenset[At]()",
        OF_WRITING + "test_a_newer_letter_in_its_place_is_written_whole",
    ),
    Mutant(
        "what a truncate has taken comes back with a letter",
        WRITING,
        "behind = behind_truncates(some, seen.truncates, newer, self._standing.stand)",
        "behind = dict[At, tuple[Fate, str]]()",
        OF_WRITING + "test_what_a_truncate_has_taken_does_not_come_back",
    ),
    Mutant(
        "a changelog gets the message that has a letter's offset now",
        LATE,
        "letters.get((topic, number), {}).get(offset) == moment",
        "letters.get((topic, number), {}).get(offset) is not None",
        OF_WRITING + "test_a_letter_whose_offset_has_another_message_now_is_none_of_this_table",
    ),
    Mutant(
        "a changelog gets a letter a second time",
        LOOKS,
        "wanted = without(letters, there)",
        "wanted = letters",
        OF_WRITING + "test_letters_that_somebody_made_up_change_no_row",
    ),
    Mutant(
        "a letter of before a cut is written over what the table has of behind it",
        CHOOSING,
        "if any(cut.seen_ms >= letter.sent_ms for cut in cuts):",
        "if any(cut.seen_ms > letter.sent_ms + 10**9 for cut in cuts):",
        OF_WRITING + "test_a_mirrors_letter_of_before_a_cut_is_not_decidable",
    ),
    Mutant(
        "a mirror's letter is tried though Kafka has dropped some of what came since",
        CHOOSING,
        "if offset < stand.kafka.starts.get(position, 0):",
        "if offset < 0:",
        OF_LETTERS + "test_which_letters_are_tried",
    ),
    Mutant(
        "a letter that a driver will read is replayed before",
        CHOOSING,
        "if offset >= stand.next[position]:",
        "if offset > stand.next[position]:",
        OF_LETTERS + "test_which_letters_are_tried",
    ),
    Mutant(
        "a replay commits though another driver has begun",
        WRITING,
        "            self._check_alone(self._standing)\n",
        "            pass\n",
        OF_WRITING + "test_a_driver_that_begins_ends_a_replay_before_its_commit",
    ),
    Mutant(
        "what is settled is said for one letter too few",
        SETTLED,
        "range(int(first), int(last or first) + 1)",
        "range(int(first), int(last or first))",
        OF_LETTERS + "test_what_is_settled_is_read_back",
    ),
    Mutant(
        "a letter above the table's own word leaves that as it is",
        PORTION,
        "return {one: place.next[one] for one in letters if one in place.next}",
        "return {}",
        OF_WRITING + "test_a_letter_above_the_tables_own_word_moves_it_and_no_other",
    ),
    Mutant(
        "a replay writes to a table that has moved on",
        PORTION,
        "place.next.get(one) == end for one, (_, end) in portion.ranges.items()",
        "one in place.next for one in portion.ranges",
        OF_WRITING + "test_a_table_that_never_stands_where_it_is_planned_for_is_given_up",
    ),
    Mutant(
        "a driver that has ended keeps replays from beginning",
        HEARTBEAT,
        "if not beat.is_running or now_ms - beat.at_ms > DEAD_AFTER_MS:",
        "if now_ms - beat.at_ms > DEAD_AFTER_MS:",
        OF_HEARTBEAT + "test_whether_a_driver_may_be_running",
    ),
    Mutant(
        "a driver of before this version counts as none",
        HEARTBEAT,
        "    if beat is None:\n",
        "    if beat is None and now_ms < 0:\n",
        OF_HEARTBEAT + "test_whether_a_driver_may_be_running",
    ),
    Mutant(
        "the beat of a driver is taken for a watermark",
        "isotherm_ingest/announce/watermarks.py",
        " or key.startswith(BEATS)",
        "",
        "ingest/announce/test_heartbeat.py::test_a_beat_is_no_watermark",
    ),
)
