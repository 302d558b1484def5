"""The commands that ask, on the stores of a daemon that has worked: true answers, readable in 80 columns."""

import json
import re

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from isotherm.service.ports import Unavailable
from isotherm.store import Ledger
from support.lab import EAGER, Lab, settle
from support.worked import configured, worked_in

HOUR_1, HOUR_4 = "at_hour=2026-01-01-01", "at_hour=2026-01-01-04"


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """For the tests that only ask."""
    return worked_in(tmp_path_factory.mktemp("worked"))


@pytest.fixture
def ask(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    return lambda lab, *words: CliRunner().invoke(app, [*words, "--config", str(lab.root / "isotherm.yaml")])


@pytest.fixture
def isotherm(worked, ask):
    return lambda *words: ask(worked, *words)


def test_explain_says_each_condition_with_its_origin(isotherm):
    result = isotherm("explain", "shop.orders", HOUR_4)

    assert result.exit_code == 0, result.output
    flat = " ".join(result.output.split())
    assert "hot: the stream is still in or before it" in flat
    assert "boundary hot the stream is still in" in flat
    assert "intent cold no open intent" in flat
    assert "all.yaml" in result.output
    assert ", or when the stream reaches 2026-01-01 06:00:00" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_plan_and_explain_say_the_same_of_a_window_and_when_it_opens_there_and_in_utc(ask, tmp_path):
    """This one opens for a minute in four years."""
    lab = Lab(tmp_path, EAGER + "work: {tz: Asia/Tokyo, windows: [{cron: 0 3 29 2 *, lasts: 1m}]}\n")
    table = lab.create()
    for hour in (1, 1, 1, 2, 2, 3, 4):
        lab.append(table, hour)
    lab.settled().stop()
    configured(lab)
    (plan,), explain = (
        json.loads(ask(lab, *words, "-o", "json").stdout)
        for words in (["plan", "shop.orders"], ["explain", "shop.orders", HOUR_1])
    )
    (decision,) = [one for one in plan["decisions"] if one["label"] == HOUR_1]
    (window,) = [one for one in explain["conditions"] if one["name"] == "work.windows"]

    assert {str(one.summary.operation.value) for one in table.refresh().snapshots()} == {"append"}
    assert decision["why"] == explain["why"]
    assert (window["word"], window["holds"], window["origin"]) == ("waiting", False, "all.yaml")
    said = r"it waits for its window, which opens at (\d{4})-02-29 03:00 Asia/Tokyo \(\1-02-28 18:00 UTC\)"
    assert re.search(f"cold and due, but {said}: 3 of 3 files", explain["why"])
    assert re.fullmatch(said, window["text"])


def test_explain_says_until_when_a_window_is_open(ask, tmp_path):
    lab = Lab(tmp_path, EAGER + 'work: {windows: [{cron: "* * * * *", lasts: 1d}]}\n')
    lab.append(lab.create(), 1)
    lab.settled().stop()
    configured(lab)
    flat = " ".join(ask(lab, "explain", "shop.orders", HOUR_1).output.split())

    assert re.search(r"work\.windows open a window is open until [\d: -]+ UTC all\.yaml", flat)


def test_explain_shows_what_was_done(isotherm):
    result = isotherm("explain", "shop.orders", HOUR_1)

    assert "clean" in result.output
    assert "(3 → 1 files)" in " ".join(result.output.split())


def test_a_partition_that_is_written_again_after_its_job_is_said_to_rest_and_until_when(tmp_path, ask):
    lab = worked_in(tmp_path)
    table = lab.catalog.load_table("shop.orders")
    for hour in (1, 1, 1, 4, 4, 4):
        lab.append(table, hour)
    lab.settled().stop()
    planned = ask(lab, "plan", "shop.orders")
    answer = json.loads(ask(lab, "explain", "shop.orders", HOUR_1, "-o", "json").stdout)
    (rest,) = [one for one in answer["conditions"] if one["name"] == "rest"]

    assert any(line.startswith("resting") and HOUR_1[:7] in line for line in planned.output.splitlines())
    assert answer["verdict"] == "resting"
    assert "rests from its last job until 20" in " ".join(planned.output.split())
    assert (rest["word"], rest["holds"]) == ("resting", False)
    assert rest["text"] in answer["why"]


def test_explain_a_table_as_a_whole(isotherm):
    result = isotherm("explain", "shop.orders")

    assert "partitions: 2 hot, 2 clean" in " ".join(result.output.split())


def test_explain_something_unknown_names_what_there_is(isotherm):
    table, partition = (
        isotherm("explain", "shop.oders"),
        isotherm("explain", "shop.orders", "at_hour=2026-01-01-1"),
    )

    assert (table.exit_code, partition.exit_code) == (2, 2)
    assert "it knows: shop.orders" in table.output
    assert HOUR_1[:-1] in partition.output.replace("\n", "")


@pytest.mark.parametrize(
    "words", [("audit",), ("pause",), ("resume",), ("plan",), ("state",), ("orphans",), ("simulate",)]
)
def test_a_table_that_is_not_there_is_a_mistake_of_who_names_it(isotherm, words):
    """The same exit code whether the daemon's stores are asked for it or the catalog, and no broker is needed."""
    result = isotherm(*words, "shop.oders")

    assert result.exit_code == 2, result.output
    assert "knows: shop.orders" in " ".join(result.output.split())


def test_without_a_daemon_the_catalog_alone_says_that_a_table_is_not_there(ask, tmp_path):
    lab = Lab(tmp_path)
    lab.create()
    configured(lab)
    result = ask(lab, "audit", "shop.oders")

    assert result.exit_code == 2
    assert result.output.endswith("shop.oders: the catalog does not have it\n")


def test_plan_shows_every_verdict(isotherm):
    result = isotherm("plan", "shop.orders")

    assert result.exit_code == 0, result.output
    assert "partitions: 2 hot, 2 clean" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_plan_by_another_policy_exits_with_3_when_asked(isotherm, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(
        "tables: '*'\ncold: {after: 0, quiet_for: 0s, quiet_commits: 0}\ncompact: {min_files: 2}"
    )
    result = isotherm("plan", "shop.orders", "--policy", str(other), "--exit-code", "-o", "json")
    (planned,) = json.loads(result.stdout)

    assert result.exit_code == 3
    due = [one["label"] for one in planned["decisions"] if one["verdict"] == "due"]
    assert due == ["at_hour=2026-01-01-02"]


def test_state_verify_equals_a_full_scan(isotherm):
    result = isotherm("state", "shop.orders", "--verify")

    assert result.exit_code == 0, result.output
    assert "equal to a full scan" in " ".join(result.output.split())


def test_state_verify_finds_a_difference(tmp_path, ask):
    lab = worked_in(tmp_path)
    service = lab.service()
    ((uuid, _),) = service.fold.tables().items()
    row = next(iter(service.fold.partitions(uuid)))
    service.fold.save_partitions(uuid, {row.key: None})
    result = ask(lab, "state", "shop.orders", "--verify")

    assert result.exit_code == 1
    flat = " ".join(result.output.split())
    assert "1 partition differs from a full scan" in flat
    assert f"{HOUR_1}: the daemon believes no files; the scan found data: 1 file, 6 rows, 7" in flat


def test_a_bad_configuration_exits_with_78(tmp_path):
    path = tmp_path / "isotherm.yaml"
    path.write_text("catalog: {}\nkafka: {properties: {bootstrap.servers: a}}\nhttpp: {}\n")
    result = CliRunner().invoke(app, ["plan", "--config", str(path)])

    assert result.exit_code == 78
    assert "did you mean `http`?" in result.output


def test_a_daemon_that_has_never_run_is_said(tmp_path):
    path = tmp_path / "isotherm.yaml"
    path.write_text("catalog: {}\nkafka: {properties: {bootstrap.servers: a}}\n")
    result = CliRunner().invoke(app, ["plan", "--config", str(path)])

    assert result.exit_code == 1
    assert "no daemon has run with this state.path yet" in " ".join(result.output.split())


def test_a_ledger_is_backed_up_while_a_daemon_writes_to_it(worked, ask, tmp_path):
    daemon = Ledger(worked.root / "state" / "ledger.db")
    with daemon.transaction():
        daemon.place("t", "s3://lake/saved")
    with daemon.transaction():
        daemon.place("t", "s3://lake/not-saved-yet")
        backup = tmp_path / "ledger.db"
        result = ask(worked, "ledger", "backup", str(backup))
        again = ask(worked, "ledger", "backup", str(backup))
    locations = [one.location for one in Ledger(backup, read_only=True).places()]

    assert result.exit_code == 0, result.output
    assert "s3://lake/saved" in locations
    assert "s3://lake/not-saved-yet" not in locations
    assert backup.stat().st_mode & 0o777 == 0o600
    assert again.exit_code == 1
    assert "exists already" in " ".join(again.output.split())
    assert list(tmp_path.iterdir()) == [backup]


def test_a_backup_of_a_ledger_that_is_not_there_leaves_no_file(tmp_path):
    path = tmp_path / "isotherm.yaml"
    path.write_text("catalog: {}\nkafka: {properties: {bootstrap.servers: a}}\n")
    result = CliRunner().invoke(app, ["ledger", "backup", str(tmp_path / "copy"), "--config", str(path)])

    assert result.exit_code == 1
    assert list(tmp_path.iterdir()) == [path]


def test_a_policy_folder_without_a_policy_says_what_that_means(tmp_path):
    path = tmp_path / "isotherm.yaml"
    path.write_text("catalog: {}\nkafka: {properties: {bootstrap.servers: a}}\n")
    (tmp_path / "policies").mkdir()
    result = CliRunner().invoke(app, ["policy", "validate", "--config", str(path)])

    assert result.exit_code == 0
    assert "without a policy no table is maintained" in result.output


def test_a_plan_of_nothing_says_why(tmp_path, ask):
    lab = worked_in(tmp_path)
    (lab.root / "policies" / "all.yaml").write_text("tables: other.*\n")
    result = ask(lab, "plan")

    assert result.exit_code == 0
    assert "no policy holds for a table that the daemon has seen" in " ".join(result.output.split())


def test_a_configuration_that_is_not_there_says_how_to_name_it(tmp_path):
    result = CliRunner().invoke(app, ["plan", "--config", str(tmp_path / "isotherm.yaml")])

    assert result.exit_code == 78
    assert "say where it is with --config or ISOTHERM_CONFIG" in " ".join(result.output.split())


def test_explain_begins_with_the_verdict_in_words(isotherm):
    as_whole, clean = isotherm("explain", "shop.orders"), isotherm("explain", "shop.orders", HOUR_1)

    assert as_whole.output.splitlines()[1].startswith("off: ")
    assert clean.output.splitlines()[1].startswith("clean: ")


def test_a_table_that_no_policy_matches_is_said_to_be_left_alone(tmp_path, ask):
    lab = worked_in(tmp_path)
    (lab.root / "policies" / "all.yaml").write_text("tables: other.*\n")
    for words in (["plan", "shop.orders"], ["explain", "shop.orders"], ["explain", "shop.orders", HOUR_1]):
        result = ask(lab, *words)

        assert result.exit_code == 0, result.output
        assert "no policy matches the table, so it is left alone" in " ".join(result.output.split())


def test_a_table_that_a_broken_file_leaves_alone_is_said_to_be_that_files(tmp_path, ask):
    """Nobody finds the file by "no policy matches": one does."""
    lab = worked_in(tmp_path)
    (lab.root / "policies" / "new.yaml").write_text("tables: shop.orders\nfoo: 1\n")
    for words in (["plan", "shop.orders"], ["explain", "shop.orders"], ["policy", "show", "shop.orders"]):
        result = ask(lab, *words)
        said = " ".join(result.output.split())

        assert "new.yaml names the table and is broken, so it is left alone: new.yaml:2:1: foo:" in said
        assert "no policy matches" not in said
        assert "new.yaml:2:1: foo: unknown key" in " ".join(result.stderr.split())
    assert "new.yaml:2:1: foo: unknown key" in " ".join(ask(lab, "plan", "-o", "json").stderr.split())


def test_a_table_whose_first_look_fails_is_listed_with_the_reason_until_one_goes_well(tmp_path, ask):
    lab = Lab(tmp_path)
    lab.append(lab.create(), 1)
    lab.append(lab.create("shop.late"), 1)
    service = lab.settled()
    real = service.catalog.load

    def load(name):
        if name == "shop.bad":
            raise Unavailable("file not found: s3://lake/bad (https://u:secret@store)")
        return real(name)

    service.catalog.load = load
    lab.append(lab.create("shop.bad"), 1)
    lab.create("shop.unknown")
    settle(service)
    configured(lab)
    text, one = ask(lab, "plan"), ask(lab, "plan", "shop.bad")
    (bad,) = json.loads(ask(lab, "plan", "shop.bad", "-o", "json").stdout)
    explained = ask(lab, "explain", "shop.bad")

    said = r"shop\.bad not looked at yet: looking at it for the first time fails since [\d: -]+: file not found: "
    assert re.search(said, " ".join(text.output.split()))
    assert re.search(said, " ".join(one.output.split()))
    assert max(map(len, text.output.splitlines())) <= 80
    assert (bad["table"], bad["decisions"], one.exit_code) == ("shop.bad", [], 0)
    assert "file not found: s3://lake/bad" in bad["trouble"]
    assert "secret" not in text.output + bad["trouble"]
    assert explained.exit_code == 1
    assert "nothing is known of shop.bad yet:" in " ".join(explained.output.split())
    (lab.root / "policies" / "all.yaml").write_text(EAGER.replace('"*"', "shop.[!b]*"))
    assert "shop.bad" not in ask(lab, "plan").output
    (lab.root / "policies" / "all.yaml").write_text(EAGER)

    service.catalog.load = real
    lab.ahead_ms += 3_600_000
    settle(service)
    service.stop()
    after = {one["table"]: one["trouble"] for one in json.loads(ask(lab, "plan", "-o", "json").stdout)}
    assert after == dict.fromkeys(["shop.bad", "shop.late", "shop.orders", "shop.unknown"])


def test_while_a_policy_file_is_broken_verdicts_say_which_version_they_are_by_and_where_it_is_broken(
    tmp_path, ask
):
    lab = worked_in(tmp_path)
    before = json.loads(ask(lab, "plan", "-o", "json").stdout)[0]
    (lab.root / "policies" / "all.yaml").write_text(EAGER + "foo: 1\nbar: 2\n")
    (lab.root / "policies" / "other.yaml").write_text("tables: other.*\nfoo: 1\n")
    by = (
        "the last good version of all.yaml is in force, because the file is broken "
        "(all.yaml:6:1: foo: unknown key; known:"
    )
    after = json.loads(ask(lab, "plan", "-o", "json").stdout)[0]

    assert (before["note"], [one["verdict"] for one in before["decisions"]]) == (
        "",
        [one["verdict"] for one in after["decisions"]],
    )
    assert after["note"].startswith(by)
    assert after["note"].endswith("; and 1 more)")
    assert "other.yaml" not in after["note"]
    for words in (["plan"], ["plan", "shop.orders"]):
        assert by in " ".join(ask(lab, *words).stdout.split())
    for words in (["explain", "shop.orders"], ["explain", "shop.orders", HOUR_4]):
        assert f"; {by}" in json.loads(ask(lab, *words, "-o", "json").stdout)["why"]


@pytest.mark.parametrize("words", [[], ["policy"], ["ledger"]])
def test_the_list_of_commands_says_of_each_a_whole_sentence(monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    listed = CliRunner().invoke(app, [*words, "--help"]).output.partition("Commands:")[2]

    assert listed.strip()
    assert all(line.endswith(".") and "..." not in line for line in listed.splitlines() if line)


def test_explain_marks_nothing_that_is_clean_as_a_fault(isotherm):
    flat = " ".join(isotherm("explain", "shop.orders", HOUR_1).output.split())

    assert "min_files clean 0.00 of 1:" in flat
    assert "boundary cold ends" in flat
    assert not set("✓✗") & set(flat)


def test_explain_a_table_says_in_words_what_may_go(isotherm):
    result = isotherm("explain", "shop.orders")
    answer = json.loads(isotherm("explain", "shop.orders", "-o", "json").stdout)
    words = {one["name"]: (one["word"], one["holds"]) for one in answer["conditions"]}

    assert "age kept the oldest was the newest until" in " ".join(result.output.split())
    assert words == {
        "age": ("kept", False),
        "count": ("kept", False),
        "expire": ("off", False),
        "rewrite manifests": ("clean", False),
        "trim metadata": ("clean", False),
        "remove orphans": ("clean", False),
    }
