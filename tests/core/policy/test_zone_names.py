"""Names of time zones, and moments in words."""

from datetime import UTC, datetime

import pytest

from isotherm.core.policy.zone_names import checked_zone, moment_text, trouble_of_zone

SOME = {"Europe/Berlin", "America/New_York", "UTC"}


def at(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT-2", "CET"]
)
def test_an_iana_name_is_a_zone(name):
    assert checked_zone(name) == name


@pytest.mark.parametrize(
    ("name", "trouble"),
    [
        ("Europe/Berln", "no time zone has this name; did you mean `Europe/Berlin`?"),
        ("europe/berlin", "did you mean `Europe/Berlin`?"),
        ("+02:00", "use an IANA name, such as `Europe/Berlin` or `UTC`"),
        ("", "use an IANA name"),
        ("x" * 10_000, "use an IANA name"),
    ],
)
def test_what_is_no_zone_is_refused_with_the_nearest_that_is(name, trouble):
    assert trouble in trouble_of_zone(name, SOME)


@pytest.mark.parametrize(
    "name",
    [
        *("../../etc/passwd", "/etc/localtime", "Europe/../Europe/Berlin", "Europe", ".", "Europe/Berlin\0"),
        *("zone.tab", "tzdata.zi", "posixrules", "right/Europe/Berlin", "posix/Europe/Berlin"),
        *("localtime", "Factory"),
    ],
)
def test_a_path_and_what_only_this_machine_knows_are_no_zones(name):
    with pytest.raises(ValueError, match="no time zone has this name"):
        checked_zone(name)


def test_a_machine_without_zone_data_knows_utc_and_says_what_to_install():
    assert "install the Python package `tzdata`" in trouble_of_zone("Europe/Berlin", set())
    assert checked_zone("UTC") == "UTC"


@pytest.mark.parametrize(
    ("moment", "zone", "text"),
    [
        ("2026-11-22T21:00", "UTC", "21:00 UTC"),
        ("2026-11-22T21:00", "Europe/Berlin", "22:00 Europe/Berlin (21:00 UTC)"),
        ("2026-11-23T12:00", "UTC", "2026-11-23 12:00 UTC"),
        ("2026-11-23T12:00", "Europe/Berlin", "2026-11-23 13:00 Europe/Berlin (12:00 UTC)"),
        ("2027-07-01T22:30", "Europe/Berlin", "2027-07-02 00:30 Europe/Berlin (2027-07-01 22:30 UTC)"),
    ],
    ids=["utc", "near", "a day ahead", "a day ahead there", "another day there"],
)
def test_a_moment_says_the_time_there_and_in_utc(moment, zone, text):
    assert moment_text(at(moment), at("2026-11-22T12:00"), zone) == text
