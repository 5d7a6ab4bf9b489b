"""What all tests share."""

import os
import signal

import hypothesis
import pytest
import torch

# A developer explores new cases; continuous integration repeats the same ones.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("developer", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "developer")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the pages first: half a minute at the very end would be waited for on one core."""
    items.sort(key=lambda item: item.path.suffix != ".md")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Small problems run faster on one thread, and their sums do not depend on the number of cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """A shell that runs the tests in the background lets them, and their processes, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
