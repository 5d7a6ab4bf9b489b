"""The actions around whose outcomes the local-linear model seeks its nodes."""

import math

import pytest
import torch

from nopg.data import Transitions
from nopg.graph import FitShape, LocalLinear
from nopg.graph._local_linear import _LARGEST_LATTICE, LocalLinearQueries, _axis, _shrunk
from nopg.kernels import GaussianKernel


@pytest.mark.parametrize(
    ("wanted", "most", "sizes"),
    [
        ([41], 128, [41]),
        ([41, 41], 128, [11, 11]),
        ([5, 5, 5], 128, [5, 5, 5]),
        ([41, 3], 60, [20, 3]),
        ([3] * 6, 128, [3] * 6),  # fewer than three along an action say nothing of it
    ],
)
def test_a_lattice_is_shortened_along_its_longest_side(
    wanted: list[int], most: int, sizes: list[int]
) -> None:
    assert _shrunk(wanted, most) == sizes


def test_an_axis_is_even_or_half_of_it_follows_the_data() -> None:
    column = torch.cat([torch.arange(8, dtype=torch.float64), torch.tensor([1e6], dtype=torch.float64)])
    assert _axis(column, 3, by_rank=False).tolist() == [0.0, 5e5, 1e6]
    assert _axis(column, 6, by_rank=True).tolist() == [0.0, 1.0, 4.0, 7.0, 5e5, 1e6]


def test_rows_that_explode_do_not_make_the_lattice_explode() -> None:
    """Gains drawn once per episode: most stay near the start, a few grow by orders of magnitude."""
    rng = torch.Generator().manual_seed(0)
    gains = torch.randn(20, 2, 2, generator=rng, dtype=torch.float64)
    states, actions, following = [], [], []
    x = torch.ones(20, 2, dtype=torch.float64)
    for _ in range(20):
        u = torch.einsum("mij,mj->mi", gains, x)
        states.append(x)
        actions.append(u)
        x = 1.2 * x + 0.4 * u
        following.append(x)
    s, a = torch.cat(states), torch.cat(actions)
    data = Transitions.from_arrays(s, a, -s.square().sum(dim=1), torch.cat(following))
    metric = GaussianKernel(torch.ones(2, dtype=torch.float64))
    model = LocalLinear(data, metric, shape=FitShape(20), cover=False)

    assert isinstance(model.node_queries, LocalLinearQueries)
    probes = model.node_queries._probes()
    assert len(probes) <= _LARGEST_LATTICE
    typical = 3.0 * float(a.abs().median())
    assert math.sqrt(len(probes)) > 10
    assert int((probes.abs() < typical).all(dim=1).sum()) >= 9  # evenly spaced there would be one at most
    assert float(a.abs().max()) > 1e3 * typical
