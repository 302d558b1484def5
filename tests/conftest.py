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
    parser.addoption("--seeds", default="100..160", help="the seeds that `make soak` plays: first..last")


def pytest_collection_modifyitems(config, items):
    """The long tests run where somebody asks for them: `make soak`."""
    if "soak" in (config.getoption("-m") or ""):
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if not item.get_closest_marker("soak")]
    if long:
        config.hook.pytest_deselected(items=long)
