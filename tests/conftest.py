"""What every test gets: hypothesis without clocks, and `--rewrite` for the stories."""

from hypothesis import HealthCheck, settings

# A machine that does something else meanwhile must not fail a law.
settings.register_profile(
    "isotherm", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("isotherm")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the stories in tests/scripts answer now into them; read the diff, keep what you want",
    )
