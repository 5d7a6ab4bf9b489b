"""Libraries that draw from the global generators and print, kept to themselves."""

import io
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import numpy as np
import torch

from nopg.data.io._files import extra


def require_d3rlpy() -> None:
    """Import d3rlpy, or say what to install."""
    with redirect_stderr(io.StringIO()):  # it imports the old gym, which prints a notice
        extra("d3rlpy")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread inside: several are slower for small networks, and sum in another order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch inside, and give them back as they were."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002 - what the libraries draw from
    with torch.random.fork_rng(devices=[]):
        try:
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.manual_seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def quiet_d3rlpy() -> Iterator[None]:
    """Let only warnings of d3rlpy's log through inside."""
    import structlog  # d3rlpy's own logger

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    try:
        yield
    finally:
        structlog.configure(**before)
