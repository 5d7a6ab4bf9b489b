"""Local fits of weighted rows."""

from dataclasses import replace

import pytest
import torch

from nopg._seeding import generator
from nopg.environments import Pendulum
from nopg.graph._local_fit import fit_locally
from nopg.kernels import GaussianKernel
from nopg.neighbors import NeighborTree
from nopg.rollouts import collect_uniform


@pytest.mark.parametrize("quadratic", [False, True])
def test_a_row_that_stands_for_several_pulls_as_its_copies_would(quadratic: bool) -> None:
    data = collect_uniform(Pendulum(), 60, seed=0)
    metric = GaussianKernel(torch.tensor([0.5, 0.5, 2.0], dtype=torch.float64))
    counts = torch.randint(1, 4, (60,), generator=generator(0, "counts"))
    distances, near = NeighborTree(metric.scale(data.features)).nearest(metric.scale(data.features[:5]), 60)
    near = near.long()
    weighted = fit_locally(
        replace(data, weights=counts.double()),
        metric,
        data.features[:5],
        near,
        distances,
        quadratic=quadratic,
    )

    # The rows are the same, so the units of the fit are: only the lists name some of them several times.
    listed = [torch.repeat_interleave(torch.arange(60), counts[rows]) for rows in near]
    copies = fit_locally(
        data,
        metric,
        data.features[:5],
        torch.stack([rows[places] for rows, places in zip(near, listed, strict=True)]),
        torch.stack([far[places] for far, places in zip(distances, listed, strict=True)]),
        quadratic=quadratic,
    )
    for part in ("shift", "slope", "curvature"):
        torch.testing.assert_close(getattr(weighted, part), getattr(copies, part), rtol=1e-9, atol=1e-9)
