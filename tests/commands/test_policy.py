"""`isotherm policy`: true answers about policies, readable in 80 columns, with the exit codes that CI needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isotherm.cli import app
from support.lab import EAGER, Lab
from support.worked import configured

DAY_MS = 86_400_000
WRONG = """\
tables: shop.orders
compact: {min_files: 40}
tests:
  - name: an hour that is over is compacted
    partition: 2026-01-01-08
    files: 60 of 1MiB
    expect: due
  - name: a day is waited for
    partition: 2026-01-01-09
    files: 60 of 1MiB
    expect: due
  - name: for the stream has not left it
    partition: 2026-01-01-11
    files: 60 of 1MiB
    expect: hot
    why: nobody says so
"""


@pytest.fixture
def ask(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, ["policy", *map(str, words)])


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A daemon has worked here, on a table with properties of its own."""
    root = tmp_path_factory.mktemp("worked")
    policy = EAGER.replace("min_files: 3", "min_files: 30").replace(
        "expire: {enabled: false}", "expire: {keep_for: 1h, keep_last: 30}"
    )
    lab = Lab(root, policy=policy.replace("min_files: 30", "min_files: 20"))
    properties = {
        "history.expire.max-snapshot-age-ms": str(2 * DAY_MS),
        "history.expire.min-snapshots-to-keep": "1",
        "write.metadata.previous-versions-max": "2",
    }
    table = lab.create(**properties)
    for hour in (1, 1, 1, 2, 3, 4):
        lab.append(table, hour)
    service = lab.settled()
    (root / "policies" / "all.yaml").write_text(policy)
    for _ in range(2):
        service.round()
    service.stop()
    lab.executor.stop()
    configured(lab)
    return root


def flat(text: str) -> str:
    return " ".join(text.split())


def a_config(root: Path) -> Path:
    path = root / "isotherm.yaml"
    path.write_text("catalog: {}\nkafka: {properties: {bootstrap.servers: a}}\n")
    (root / "policies").mkdir(exist_ok=True)
    return path


class TestValidate:
    def test_the_folder_of_the_configuration_is_looked_at(self, ask, tmp_path):
        config = a_config(tmp_path)
        (tmp_path / "policies" / "good.yaml").write_text("tables: a")
        good = ask("validate", "--config", config)
        (tmp_path / "policies" / "bad.yml").write_text("tables: a\ncompact: {min_file: 5}\n")
        bad = ask("validate", "--config", config)

        assert (good.exit_code, good.output) == (0, "1 policy file, nothing wrong\n")
        assert bad.exit_code == 78
        assert bad.output.endswith("bad.yml:2:11: compact.min_file: unknown key; did you mean `min_files`?\n")

    def test_all_complaints_come_at_once_each_on_a_line(self, ask, tmp_path):
        for name, text in {
            "a.yaml": "tables: shop.*\ncold: {after: 1, quiet_fro: 5m}\nexpire: {keep_last: many}\n",
            "b.yaml": "tables: x\norphans: {older_than: 1h}\n",
            "c.yaml": "tables: shop.*\ncold: {after: 1}\n",
            "d.yaml": "tables: shop.*\ncold: {after: 2}\n",
        }.items():
            (tmp_path / name).write_text(text)
        result = ask("validate", tmp_path)
        places = [line.removeprefix(f"{tmp_path}/").split(": ")[0] for line in result.output.splitlines()]

        assert result.exit_code == 78
        assert places == [
            "a.yaml:2:18",
            "a.yaml:3:10",
            "b.yaml:2:11",
            str(tmp_path / "d.yaml")[len(str(tmp_path)) + 1 :],
        ]
        assert "cold.after is 2, and 1 in" in result.output

    def test_json(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text("tables: a")
        (tmp_path / "b.yaml").write_text("tables: a\nx: 1")
        result = ask("validate", "a.yaml", "b.yaml", "-o", "json")

        assert result.exit_code == 78
        assert json.loads(result.stdout) == {
            "files": ["a.yaml"],
            "complaints": [
                (
                    "b.yaml:2:1: x: unknown key; known: cold, compact, expire, manifests, metadata, orphans, override, "
                    "tables, tests, work"
                )
            ],
        }


class TestTest:
    def test_a_wrong_expectation_shows_both_sides_and_the_reason(self, ask, tmp_path):
        (tmp_path / "shop.yaml").write_text(WRONG)
        result = ask("test", "shop.yaml")

        assert result.exit_code == 1
        assert result.output == (
            "shop.yaml:12: for the stream has not left it\n"
            "  expected  hot, because … nobody says so …                                     \n"
            "  got       hot, because hot: ends 0s behind the stream (boundary 2026-01-01    \n"
            "            12:00:00), 2h needed: how late its rows come is not known yet; debt \n"
            "            1.50: 60 of 40 files below 96.0 MiB                                 \n"
            "3 tests, 1 not as expected\n"
        )

    def test_json_has_every_test(self, ask, tmp_path):
        (tmp_path / "shop.yaml").write_text(WRONG)
        result = ask("test", "shop.yaml", "-o", "json")
        answer = json.loads(result.stdout)

        assert result.exit_code == 1
        assert [(one["line"], one["table"], one["judged"]["ok"]) for one in answer] == [
            (4, "shop.orders", True),
            (8, "shop.orders", True),
            (12, "shop.orders", False),
        ]
        assert answer[2]["judged"]["why"].startswith("hot: ends 0s behind")

    def test_files_that_are_named_together_are_one_set(self, ask, tmp_path):
        (tmp_path / "all.yaml").write_text("tables: '*'\ncompact: {min_files: 50}")
        (tmp_path / "shop.yaml").write_text(
            "tables: shop.*\ncold: {quiet_for: 1m}\ntests:\n"
            "- {name: n, partition: 2026-01-01-08, files: 40 of 1MiB, expect: clean}"
        )

        assert (ask("test", "shop.yaml").exit_code, ask("test", "shop.yaml", "all.yaml").exit_code) == (1, 0)

    def test_bad_files_are_not_tested(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text("tables: a\nx: 1")

        assert ask("test", "a.yaml").exit_code == 78

    def test_a_table_that_a_test_names_may_have_properties(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text(
            "tables: '*'\nexpire: {keep_for: 1d}\ntests:\n"
            "- name: a table that keeps more\n  action: expire\n  spec: none\n"
            "  properties: {history.expire.max-snapshot-age-ms: '864000000'}\n"
            "  snapshots: {count: 100, oldest: 5d}\n  expect: clean\n"
        )

        assert ask("test", "a.yaml").exit_code == 0


class TestShow:
    def test_each_value_has_its_origin_and_what_gave_way_is_said(self, ask, worked):
        result = ask("show", "shop.orders", "--config", worked / "isotherm.yaml")
        lines = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if "." in line}

        assert result.exit_code == 0, result.output
        assert lines["compact.min_files"] == ["30", "all.yaml"]
        assert lines["expire.keep_for"] == ["2d", "table", "property"]
        assert lines["expire.keep_last"] == ["30", "all.yaml"]
        assert lines["metadata.keep_last"] == ["5", "table", "property"]
        assert lines["cold.quiet_for"] == ["0s", "all.yaml"]
        assert lines["expire.max_metadata_size"] == ["32MiB", "built-in"]
        assert "metadata.keep_last: the table property says 2, raised to the floor" in flat(result.output)
        assert "expire.keep_for: all.yaml says 1h, but the table property keeps more" in flat(result.output)
        assert max(map(len, result.output.splitlines())) <= 80

    def test_json(self, ask, worked):
        result = ask("show", "shop.orders", "--config", worked / "isotherm.yaml", "-o", "json")
        answer = json.loads(result.stdout)

        assert answer["policy"]["compact"]["min_files"] == 30
        assert answer["origins"]["compact.min_files"] == "all.yaml"
        assert len(answer["notes"]) == 3
        assert [line.split(" ", 2)[2] for line in answer["history"]] == [
            "all.yaml: compact.min_files 20 → 30"
        ]

    def test_a_table_that_no_file_names_is_said_to_be_left_alone(self, ask, tmp_path):
        config = a_config(tmp_path)
        (tmp_path / "policies" / "shop.yaml").write_text("tables: shop.*")
        result = ask("show", "web.clicks", "--config", config)

        assert result.exit_code == 1
        assert "no policy matches web.clicks (files: shop.yaml); it is left alone" in flat(result.output)

    def test_of_a_table_that_the_daemon_does_not_know_the_files_alone_speak(self, ask, worked):
        result = ask("show", "shop.order", "--config", worked / "isotherm.yaml")

        assert "not considered: the daemon knows no table shop.order" in flat(result.output)
        assert result.exit_code == 0

    def test_a_table_that_neither_the_daemon_nor_a_file_knows_is_a_mistake(self, ask, tmp_path):
        lab = Lab(tmp_path, policy=EAGER.replace('tables: "*"', "tables: shop.*"))
        lab.append(lab.create(), 1)
        lab.settled().stop()
        result = ask("show", "web.clicks", "--config", configured(lab))

        assert result.exit_code == 2
        assert "the daemon knows no table web.clicks; it knows: shop.orders" in flat(result.output)
        assert "no policy matches web.clicks" in flat(result.output)

    def test_without_a_daemon_the_files_alone_speak(self, ask, tmp_path):
        config = a_config(tmp_path)
        (tmp_path / "policies" / "shop.yaml").write_text("tables: shop.*\ncold: {after: 7}")
        result = ask("show", "shop.orders", "--config", config)

        assert result.exit_code == 0
        assert "cold.after 7 shop.yaml" in flat(result.output)
        assert "the table's own properties are not considered" in flat(result.output)


class TestDiff:
    def test_fields_from_and_to_for_every_name_in_the_files(self, ask, tmp_path):
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "all.yaml").write_text("tables: '*'\nexpire: {keep_for: 2d}")
        (tmp_path / "old" / "web.yaml").write_text("tables: web.clicks\ncold: {after: 3}")
        (tmp_path / "new.yaml").write_text(
            "tables: ['*']\nexpire: {keep_for: 36h}\ncompact: {target_file_size: 256MiB}\n"
            "work: {windows: [{cron: 0 3 * * *, lasts: 2h}]}"
        )
        result = ask("diff", "old", "new.yaml")

        assert result.exit_code == 0, result.output
        assert [line.rstrip() for line in result.output.splitlines()] == [
            "*",
            "  compact.target_file_size  128MiB  →  256MiB",
            "  expire.keep_for           2d      →  1d12h",
            "  work.windows              []      →  [{cron: 0 3 * * *, lasts: 2h}]",
            "web.clicks",
            "  cold.after                3       →  learned",
            "  compact.target_file_size  128MiB  →  256MiB",
            "  expire.keep_for           2d      →  1d12h",
            "  work.windows              []      →  [{cron: 0 3 * * *, lasts: 2h}]",
        ]

    def test_a_table_that_comes_under_a_policy_or_leaves_it(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text("tables: shop.*")
        (tmp_path / "b.yaml").write_text("tables: web.*\ncold: {after: 1}")
        result = ask("diff", "a.yaml", "b.yaml")

        assert [line.rstrip() for line in result.output.splitlines()] == [
            "web.*  maintained from now on",
            "  cold.after  learned  →  1",
            "shop.*  left alone from now on",
        ]

    def test_one_table(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text("tables: shop.*")
        (tmp_path / "b.yaml").write_text("tables: shop.*\ncold: {after: 1}")

        assert "nothing changes\n" == ask("diff", "a.yaml", "a.yaml", "shop.orders").output
        answer = json.loads(ask("diff", "a.yaml", "b.yaml", "shop.orders", "-o", "json").stdout)
        assert answer["policies"][0]["subject"] == "shop.orders"
        assert answer["policies"][0]["fields"] == [{"field": "cold.after", "before": "learned", "after": "1"}]

    def test_with_plan_it_says_what_would_be_decided_otherwise(self, ask, worked, tmp_path):
        new = tmp_path / "new.yaml"
        new.write_text(EAGER.replace("min_files: 3", "min_files: 2"))
        config = worked / "isotherm.yaml"
        result = ask("diff", worked / "policies", new, "--plan", "--config", config)
        answer = json.loads(
            ask("diff", worked / "policies", new, "--plan", "--config", config, "-o", "json").stdout
        )

        assert result.exit_code == 0, result.output
        assert "clean due at_hour=2026-01-01-01 cold and due: 3 of 2 files" in flat(result.output)
        assert max(map(len, result.output.splitlines())) <= 80
        changed = {one["label"]: (one["before"], one["after"]) for one in answer["verdicts"]["shop.orders"]}
        assert changed["at_hour=2026-01-01-01"] == ("clean", "due")
        assert "at_hour=2026-01-01-04" not in changed

    def test_bad_files_are_not_compared(self, ask, tmp_path):
        (tmp_path / "a.yaml").write_text("tables: a\nx: 1")

        assert ask("diff", "a.yaml", "a.yaml").exit_code == 78


def test_the_commands_about_files_do_not_load_what_tables_need():
    """They run in the CI of repositories with policies, and with each save of a file."""
    program = (
        "import sys; from typer.testing import CliRunner; from isotherm.cli import app; "
        "CliRunner().invoke(app, ['policy', 'schema']); "
        "print([name for name in ('pyiceberg', 'pyarrow', 'duckdb', 'confluent_kafka') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
        timeout=60,
    )

    assert done.stdout.strip() == "[]"
