"""What of a configuration is shown, and what is taken out of every text."""

import pytest

from isotherm.commands.doctor.hidden import HARMLESS, HIDDEN, Secrets, flat, shown, shown_address
from isotherm.runtime.config import IsothermConfig

SECRET = "hunter2"  # noqa: S105 (it must not be shown)


def configured(catalog=None, kafka=None, **more):
    return IsothermConfig.model_validate(
        {
            "catalog": {"properties": catalog or {}},
            "kafka": {"properties": {"bootstrap.servers": "k:9092", **(kafka or {})}},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("http://catalog:8181/api", "http://catalog:8181/api"),
        ("s3://lake/wh", "s3://lake/wh"),
        ("sqlite:////var/lib/catalog.db", "sqlite:////var/lib/catalog.db"),
        ("kafka-1:9093,kafka-2:9093", "kafka-1:9093,kafka-2:9093"),
        ("true", "true"),
        (f"http://user:{SECRET}@catalog/api", "http://***@catalog/api"),
        (f"postgresql+psycopg2://user:{SECRET}/@?x@db/lake", "postgresql+psycopg2://***@db/lake"),
        (f"postgresql://db/lake?password={SECRET}", "postgresql://db/lake?***"),
        (f"sc://spark:15002/;token={SECRET};use_ssl=true", "sc://spark:15002/?***"),
        (f"https://store/a#{SECRET}", "https://store/a?***"),
        (f"user:{SECRET}@db/lake", "***@db/lake"),
        (f"mssql+pyodbc:///?odbc_connect=PWD={SECRET}", "mssql+pyodbc:///?***"),
    ],
)
def test_an_address_is_shown_without_who_asks_and_its_query(address, told):
    assert shown_address(address) == told


def test_every_key_is_shown_and_only_harmless_properties_have_a_value():
    config = configured({"uri": "http://c", "s3.secret-access-key": SECRET, "unheard.of": SECRET})
    keys = dict(flat(shown(config)))

    assert keys["catalog.properties.uri"] == "http://c"
    assert keys["catalog.properties.s3.secret-access-key"] == HIDDEN
    assert keys["catalog.properties.unheard.of"] == HIDDEN
    assert keys["kafka.properties.bootstrap.servers"] == "k:9092"
    assert keys["http.port"] == "9464"
    assert SECRET not in str(keys)


def test_what_nobody_said_is_left_out_where_that_is_asked_for():
    keys = dict(flat(shown(configured({"uri": "http://c"}), is_said_only=True)))

    assert set(keys) == {"catalog.properties.uri", "kafka.properties.bootstrap.servers"}


def test_no_name_of_a_secret_is_harmless():
    words = ("secret", "password", "token", "credential", "jaas", "access-key", "sas", "private")

    assert [name for name in HARMLESS if any(word in name.replace("sasl", "") for word in words)] == []


@pytest.mark.parametrize(
    ("catalog", "kafka", "text"),
    [
        ({"s3.secret-access-key": SECRET}, {}, f"refused: {SECRET}!"),
        ({"credential": f"me:{SECRET}"}, {}, f"client {SECRET}"),
        ({"uri": f"http://me:{SECRET}@c"}, {}, f"password {SECRET} was wrong"),
        ({"uri": f"http://c/x?sig={SECRET}"}, {}, f"sig {SECRET}"),
        ({"unheard.of": SECRET}, {}, f"({SECRET})"),
        ({"token": "a/b+c=="}, {}, "GET /?t=a%2Fb%2Bc%3D%3D"),
        ({}, {"sasl.password": SECRET}, f'"{SECRET}"'),
        ({}, {"sasl.password": 12345678}, "pin 12345678"),
        ({}, {"sasl.jaas.config": f'x required username="me" password="{SECRET}";'}, SECRET),
        ({}, {"ssl.key.pem": f"-----BEGIN-----\n{SECRET}\n-----END-----"}, f"line {SECRET}"),
    ],
)  # fmt: skip
def test_whatever_may_be_secret_is_taken_out_of_a_text(catalog, kafka, text):
    told = Secrets(configured(catalog, kafka)).without(text)

    assert HIDDEN in told
    assert not any(word in told for word in (SECRET, "12345678", "a%2Fb", "a/b"))


def test_so_are_those_of_the_environment_and_of_a_cluster(monkeypatch, tmp_path):
    (tmp_path / "known").touch()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"/{SECRET}+from+the+environment")
    monkeypatch.setenv("SSL_KEY_FILE", str(tmp_path / "known"))
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", "http://me:opensesame@c")
    spark = {"executors": {"spark": {"remote": "sc://s:1/;token=swordfish"}}}
    secrets = Secrets(configured(**spark))

    assert secrets.without(f"x /{SECRET}+from+the+environment") == "x ***"
    assert secrets.without("opensesame, swordfish") == "***, ***"
    assert secrets.without(f"at {tmp_path / 'known'}") == f"at {tmp_path / 'known'}"


def test_what_pyicebergs_own_file_says_is_added_and_words_of_every_day_stay():
    secrets = Secrets(configured({"s3.path-style-access": "true", "header.x": "true"}))
    secrets.add({"token": SECRET})

    assert secrets.without(f"true: {SECRET}") == "true: ***"
    assert secrets.without_all({"a": [SECRET, 1, None, {SECRET: True}]}) == {
        "a": [HIDDEN, 1, None, {HIDDEN: True}]
    }
