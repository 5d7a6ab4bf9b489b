"""The paper's problem from logged transitions: bandwidths, candidates that memory affords, precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from nopg._memory import gigabytes
from nopg._ranks import Ranks
from nopg.bellman import PaperProblem
from nopg.data import Transitions
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import IntegrationRule, PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._footprint import Footprint, memory_budget
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS
from nopg.models._sharing import is_sharded, share_rows, whole_data

__all__ = ["PaperSettings", "paper_footprint", "paper_problem"]

# Below this many rows float64 costs little.
_FLOAT32_ABOVE = 20_000


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """What can be set for the paper's model; see `optimize`.

    Attributes:
        bandwidths: Of the kernels; selected from the data by default.
        prior_mass: β; 10⁻⁶ by default.
        integration: How the integral over next states is computed.
        precision: Of the training.
        device: Where the updates compute.
        memory_budget: Bytes that the process may take; 60 % of what is free if not given.
    """

    bandwidths: Bandwidths | None = None
    prior_mass: float | None = None
    integration: IntegrationRule | None = None
    precision: Literal["auto", "float32", "float64"] = "auto"
    device: torch.device | None = None
    memory_budget: int | None = None


def paper_footprint(data: Transitions, settings: PaperSettings, ranks: Ranks) -> Footprint:
    """Return the memory that the model needs on each rank."""
    rows = -(-_all_rows(data, ranks) // ranks.count)
    draws = 1 if settings.integration is None else settings.integration.num_samples
    return Footprint.of(data, rows * draws)


def paper_problem(
    data: Transitions,
    starts: torch.Tensor,
    discount: float,
    settings: PaperSettings,
    *,
    unknown_value: float | None,
    ranks: Ranks,
    most_candidates: int | None,
) -> tuple[PaperProblem, str]:
    """Return the problem, and what it takes of the memory in one line.

    Args:
        data: The transitions; on several ranks those of this one, or all of them.
        starts: Raw initial states, shape (n₀, d_s).
        discount: γ.
        settings: Of the model.
        unknown_value: v; the worst that can happen if not given.
        ranks: Who shares the data.
        most_candidates: K that a checkpoint was begun with; what memory affords if not given.
    """
    rows, budget = _all_rows(data, ranks), memory_budget(settings.memory_budget)
    footprint = paper_footprint(data, settings, ranks)
    if most_candidates is None:
        most_candidates = -int(ranks.max(torch.tensor(-footprint.affordable(budget))))
    h = settings.bandwidths or select_bandwidths(whole_data(data, ranks))
    shared = share_rows(data, h.state_kernel, ranks)
    single = settings.precision == "float32" or (settings.precision == "auto" and rows > _FLOAT32_ABOVE)
    model = PaperModel(
        shared.data,
        h,
        prior_mass=DEFAULT_PRIOR_MASS if settings.prior_mass is None else settings.prior_mass,
        integration=settings.integration,
        search=CandidateSearch(most_candidates=most_candidates),
        dtype=torch.float32 if single else torch.float64,
        device=settings.device,
        ranks=ranks,
        cells=shared.cells,
    )
    problem = PaperProblem.build(
        model,
        data.schema.encode(starts[ranks.number :: ranks.count]),
        discount=discount,
        unknown_value=unknown_value,
        rows=shared.rows,
    )
    K = model.node_queries.pattern.row_length
    note = (
        f"{footprint.queries} rows of up to {K} candidates, about {gigabytes(footprint.bytes(K))} of "
        f"the {gigabytes(budget)} that may be taken"
    )
    return problem, note


def _all_rows(data: Transitions, ranks: Ranks) -> int:
    return int(ranks.total(len(data))) if is_sharded(data, ranks) else len(data)
