"""The alert rules: complete, documented, and right by promtool's own tests."""

import re
import subprocess

import pytest
import yaml

from grafana.queries import ALERTS, ROOT, alerts, program

RULES = alerts()
TESTS = sorted((ROOT / "grafana").glob("alerts_*test.yaml"))
RUNBOOK = ROOT / "docs" / "runbook.md"


def promtool(*arguments: str) -> str:
    done = subprocess.run(
        [program("promtool"), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules():
    assert f"{len(RULES)} rules found" in promtool(
        "check", "rules", "--lint=all", "--lint-fatal", str(ALERTS)
    )


def test_promtool_accepts_the_example_of_a_configuration():
    assert "is valid prometheus config" in promtool("check", "config", "grafana/prometheus.yaml")


@pytest.mark.parametrize("tests", TESTS, ids=lambda file: file.name)
def test_every_alert_fires_and_does_not_fire_as_its_tests_say(tests):
    assert "SUCCESS" in promtool("test", "rules", str(tests))


def test_every_alert_is_tested_firing_and_so_is_something_that_must_not_fire():
    cases = [
        case
        for tests in TESTS
        for group in yaml.safe_load(tests.read_text(encoding="utf-8"))["tests"]
        for case in group["alert_rule_test"]
    ]

    assert {rule["alert"] for rule in RULES} == {case["alertname"] for case in cases if case["exp_alerts"]}
    # An alert on one of several series is tested by the others, too: they are expected not to be in the answer.
    assert [case for case in cases if not case["exp_alerts"]]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
class TestAlert:
    def test_it_says_how_urgent_it_is_and_what_is_the_matter(self, rule):
        assert re.fullmatch(r"Isotherm([A-Z][a-z]+)+", rule["alert"])
        assert rule["labels"] in ({"severity": "warning"}, {"severity": "critical"})
        assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
        assert "{{" not in rule["annotations"]["summary"]
        assert re.search(r"{{.*}}", rule["annotations"]["description"])

    def test_its_runbook_has_a_chapter_with_what_it_means_where_to_look_and_what_to_do(self, rule):
        page, anchor = rule["annotations"]["runbook_url"].split("#")
        chapters = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        chapter = next((text for text in chapters if text.splitlines()[0] == rule["alert"]), "")

        assert ("docs/runbook.md", rule["alert"].lower()) == (page, anchor)
        assert all(part in chapter for part in ("**Means.**", "**Look at.**", "**Do.**")), chapter


def test_the_runbook_speaks_of_no_alert_that_is_gone():
    headings = re.findall(r"^## (Isotherm\w+)$", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)

    assert [rule["alert"] for rule in RULES] == headings
