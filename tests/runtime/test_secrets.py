"""What clients repeat of secrets is taken out of a text, and nothing else is."""

import json
import logging
import sys
from io import StringIO

import pytest
import structlog

from isotherm.runtime import logs
from isotherm.runtime.secrets import without_secrets

HIDDEN = "hunter2"
SIGNED = "https://acct.blob.core.windows.net/lake/v1.json?sv=2024&sig=hunter2%3D"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"GET '{SIGNED}' failed", "GET 'https://acct.blob.core.windows.net/lake/v1.json?***' failed"),
        ("Max retries exceeded with url: /w/t?sv=1&sig=hunter2 (…)", "Max retries exceeded with url: /w/t?*** (…)"),
        ("asked for /w/t?sv=1&sig=hunter2&se=3", "asked for /w/t?sv=1&sig=***&se=3"),
        ("POST http://user:hun@ter2@127.0.0.1:8181/v1", "POST http://***@127.0.0.1:8181/v1"),
        ("POST https://hunter2@host/v1?a=b", "POST https://***@host/v1?***"),
        ("nonsense+driver://user:hunter2@host/db", "nonsense+driver://***@host/db"),
        ("abfss://user:hunter2@host/w", "abfss://***@host/w"),
        ("header 'Bearer hunter2'", "header 'Bearer ***'"),
    ],
)  # fmt: skip
def test_what_a_client_repeats_of_a_secret_is_hidden(text, told):
    assert without_secrets(text) == told
    assert without_secrets(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "abfss://lake@acct.dfs.core.windows.net/w/t/data/a.parquet",
        "s3://lake/t/what=is it?/question=a?b/a.parquet",
        "http://127.0.0.1:8181/v1/namespaces is asked again in 5 s; why? nobody knows",
        "basic rules of user@host, and a bearer of news",
    ],
)
def test_what_is_no_secret_stays(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize("style", ["json", "console"])
def test_no_line_of_the_log_has_a_secret_whoever_writes_it(monkeypatch, style):
    """Also a traceback, and what a library warns of: each line of JSON stays one."""
    before, handlers = structlog.get_config(), logging.root.handlers[:]
    written = StringIO()
    logging.root.handlers.clear()
    monkeypatch.setattr(sys, "stderr", written)
    logs.configure(style=style)
    try:
        _fail(HIDDEN)
    except OSError:
        logs.get().warning("try_soon", why=f'it said "{SIGNED}"', after=1, exc_info=True)
    logs.get().warning("try_soon", why=f"{SIGNED}\nand more", after=2)
    if style == "json":
        assert [json.loads(line)["after"] for line in written.getvalue().splitlines()] == [1, 2]
    logging.getLogger("urllib3").warning("retrying %s", SIGNED)
    logging.root.handlers[:] = handlers
    structlog.configure(**before)

    assert written.getvalue().count("v1.json?***") >= 4
    assert HIDDEN not in written.getvalue()


def _fail(key):
    raise OSError(f'"{SIGNED}" with {len(key)} letters')
