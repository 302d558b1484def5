"""Reports of scans at the port: what is one, what is none, and what a flood of either may cost."""

import json
import socket
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from isotherm.core.observations import Reported
from isotherm.runtime.clock import monotonic_s
from isotherm.service.health import Health
from isotherm.service.tables.scan_reports import LEAST_BYTES, MOST_BYTES_A_SECOND, ScanReports
from isotherm.telemetry.http import serve
from isotherm.telemetry.scan_reports import FILE_COLUMN, MAX_BYTES, answer, table_of

TABLE = "shop.orders"
PATH = "/v1/namespaces/shop/tables/orders/metrics"


def count(value):
    return {"unit": "count", "value": value}


def scan_report(**changes):
    """As the specification has it: `rest-catalog-open-api.yaml`, ScanReport."""
    return {
        "report-type": "scan-report",
        "table-name": "lake.shop.orders",
        "snapshot-id": 6656377125404557408,
        "filter": {"type": "eq", "term": "customer", "value": "(hash-37cef14e)"},
        "schema-id": 0,
        "projected-field-ids": [1, 2],
        "projected-field-names": ["order_id", "customer"],
        "metrics": {
            "total-planning-duration": {
                "count": 1,
                "time-unit": "nanoseconds",
                "total-duration": 66618942,
            },
            "result-data-files": count(120),
            "result-delete-files": count(0),
            "total-file-size-in-bytes": {"unit": "bytes", "value": 1279},
        },
        "metadata": {"engine-name": "spark", "app-id": "local-1"},
        **changes,
    }


COMMIT_REPORT = {
    "report-type": "commit-report",
    "table-name": TABLE,
    "snapshot-id": 1,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {"attempts": count(1)},
}


def listening(**started):
    reports = ScanReports(started.get("monotonic_s", lambda: 0.0))
    reports.take(frozenset({TABLE}))
    return reports


def heard(reports):
    scans, outcomes = reports.take(frozenset({TABLE}))
    return dict(scans), dict(outcomes)


@pytest.fixture
def reports():
    return listening()


def port_with(reports):
    return serve("127.0.0.1", 0, CollectorRegistry(), Health(monotonic_s()), reports)


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as answered:  # noqa: S310 (our own port)
            return answered.status, answered.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def as_bytes(content):
    return json.dumps(content).encode()


def test_a_report_of_a_scan_is_counted_at_the_path_of_a_rest_catalog(reports):
    port = port_with(reports)

    assert post(port, PATH, as_bytes(scan_report())) == (204, "")
    assert post(port, f"/api/catalog{PATH}".replace("v1", "v1/lake"), as_bytes(scan_report())) == (204, "")
    assert heard(reports) == ({TABLE: 2}, {Reported.COUNTED: 2})


@pytest.mark.parametrize(
    ("uri", "table"),
    [
        ("/v1/namespaces/shop/tables/orders/metrics", "shop.orders"),
        ("/v1/lake/namespaces/a%1Fb/tables/t/metrics", "a.b.t"),
        ("/api/catalog/v1/a/b/namespaces/a%1fb.c/tables/t%20u+v/metrics?x=1", "a.b%2Ec.t u v"),
        ("http://host/v1/namespaces/%C3%A4/tables/%2F/metrics", "ä./"),
        ("/v1/namespaces/shop/tables/orders", None),
        ("/v1/namespaces/shop/tables//metrics", None),
        ("/v1/namespaces//tables/orders/metrics", None),
        ("/namespaces/shop/tables/orders/metrics", None),
        ("/v1/namespaces/shop/views/orders/metrics", None),
        ("/metrics", None),
        ("//[/v1/namespaces/shop/tables/orders/metrics", None),
        ("//a\u2100/v1/namespaces/shop/tables/orders/metrics", None),
    ],
)
def test_the_path_says_which_table_was_read(uri, table):
    assert table_of(uri) == table


@pytest.mark.parametrize(
    "none",
    [
        COMMIT_REPORT,
        scan_report(**{"projected-field-ids": [FILE_COLUMN, 2]}),
        scan_report(metrics={"result-data-files": count(0)}),
        {"report-type": "a-report-of-tomorrow"},
    ],
    ids=["a commit", "a writer that looks for rows", "a scan of no file", "a kind that is not known"],
)
def test_what_is_no_scan_by_a_reader_is_taken_and_not_counted_as_read(reports, none):
    assert answer(reports, TABLE, as_bytes(none)) == (204, b"")
    assert heard(reports) == ({}, {Reported.NO_SCAN: 1})


@pytest.mark.parametrize("without", ["metadata", "filter", "metrics"])
def test_what_engines_add_or_leave_out_of_little_weight_is_passed_over(reports, without):
    report = scan_report(metrics={"of-tomorrow": count(1)}, more=[1])
    del report[without]

    assert answer(reports, TABLE, as_bytes(report))[0] == (400 if without == "metrics" else 204)


DEEP = b'{"report-type":"scan-report","filter":' + b"[" * 60_000 + b"]" * 60_000 + b"}"
HOSTILE = {
    "nothing": b"",
    "no JSON": b"<html>",
    "a list": b"[]",
    "no text": b"\xff\xfe\x00",
    "cut off": as_bytes(scan_report())[:-9],
    "nested deep": DEEP,
    "without its kind": b"{}",
    "a number as kind": as_bytes(scan_report(**{"report-type": 7})),
    "null": b"null",
    "a text as snapshot": as_bytes(scan_report(**{"snapshot-id": "1"})),
    "a fraction": as_bytes(scan_report(**{"snapshot-id": 1.5})),
    "a boolean": as_bytes(scan_report(**{"snapshot-id": True})),
    "too many digits": as_bytes(scan_report()).replace(b"6656377125404557408", b"9" * 20),
    "digits without end": as_bytes(scan_report()).replace(b"6656377125404557408", b"9" * 100_000),
    "NaN": as_bytes(scan_report(metrics={"result-data-files": count(float("nan"))})),
    "infinite": as_bytes(scan_report(metrics={"result-data-files": count(float("inf"))})),
    "negative": as_bytes(scan_report(metrics={"result-data-files": count(-1)})),
    "no number": as_bytes(scan_report(metrics={"result-data-files": {"unit": "count"}})),
    "NaN where nobody looks": as_bytes(scan_report(filter=float("nan"))),
    "a list of metrics": as_bytes(scan_report(metrics=[])),
    "ids that are texts": as_bytes(scan_report(**{"projected-field-ids": ["1"]})),
    "without a table": as_bytes({k: v for k, v in scan_report().items() if k != "table-name"}),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_report_is_refused_in_words_and_counted(reports, body):
    status, said = answer(reports, TABLE, body)

    assert status == 400
    assert json.loads(said)["error"]["message"].startswith("no report")
    assert heard(reports) == ({}, {Reported.REFUSED: 1})


def test_a_refusal_repeats_nothing_that_was_sent(reports):
    secret = as_bytes(scan_report(metrics={"hunter2": {"value": "hunter2"}}, **{"snapshot-id": "hunter2"}))

    assert b"hunter2" not in answer(reports, "hunter2", secret)[1]
    assert b"hunter2" not in answer(reports, "hunter2", as_bytes(scan_report()))[1]


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(st.binary(max_size=300) | st.dictionaries(st.sampled_from([*scan_report(), "x"]), NESTED))
def test_whatever_is_sent_has_an_answer(body):
    reports = listening()
    sent = body if isinstance(body, bytes) else as_bytes(scan_report(**body))
    status, _ = answer(reports, TABLE, sent)

    assert status in (204, 400)
    assert sum(heard(reports)[1].values()) == 1


def test_a_table_that_nobody_knows_is_counted_and_not_kept(reports):
    for number in range(50):
        status, said = answer(reports, f"made.up{number}", as_bytes(scan_report()))

        assert (status, json.loads(said)["error"]["type"]) == (404, "NoSuchTableException")
    assert heard(reports) == ({}, {Reported.UNKNOWN_TABLE: 50})


def test_of_a_flood_so_much_is_read_in_a_second_and_the_rest_is_counted():
    now_s = [5.0]
    reports = listening(monotonic_s=lambda: now_s[0])
    most = MOST_BYTES_A_SECOND // LEAST_BYTES
    statuses = [answer(reports, TABLE, as_bytes(scan_report()))[0] for _ in range(3 * most)]

    assert statuses == [204] * most + [429] * 2 * most
    assert heard(reports) == ({TABLE: most}, {Reported.COUNTED: most, Reported.CROWDED: 2 * most})
    now_s[0] += 1
    large = as_bytes(scan_report()) + b" " * 99_000
    assert [answer(reports, TABLE, large)[0] for _ in range(20)] == [204] * 10 + [429] * 10


@pytest.mark.parametrize(
    ("size", "status"), [(MAX_BYTES, 204), (MAX_BYTES + 1, 413), (MAX_BYTES * 1000, 413)]
)
def test_a_body_that_is_too_large_is_refused_before_it_is_read(reports, size, status):
    sent = as_bytes(scan_report())
    sent += b" " * (min(size, MAX_BYTES) - len(sent))
    header = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port_with(reports)), timeout=30) as connection:
        connection.sendall(header + (sent if status == 204 else b""))
        said = connection.recv(1000)

    assert said.startswith(f"HTTP/1.1 {status} ".encode())
    assert heard(reports)[1] == {Reported.COUNTED if status == 204 else Reported.REFUSED: 1}


def test_a_body_without_end_is_given_up(reports):
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    header = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    port = port_with(reports)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(header)
        with pytest.raises(ConnectionError):
            connection.sendall(2000 * chunk)

    assert heard(reports)[1] == {Reported.REFUSED: 1}
    assert post(port, PATH, as_bytes(scan_report())) == (204, "")


def test_where_no_reports_are_wanted_the_port_takes_none():
    port = port_with(None)

    assert post(port, PATH, as_bytes(scan_report()))[0] == 404
    assert post(port, PATH, b" " * 2000)[0] == 413


def test_the_path_answers_nothing_but_reports(reports):
    port = port_with(reports)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}{PATH}", timeout=30)
    assert post(port, "/v1/namespaces/shop/tables/orders", as_bytes(scan_report()))[0] == 404
    assert heard(reports) == ({}, {})
