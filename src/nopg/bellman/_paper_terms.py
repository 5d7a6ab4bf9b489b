"""All of the paper's equation that does not depend on the policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import torch

from nopg.bellman._problem import ControlProblem
from nopg.data import Transitions
from nopg.kernels import GaussianKernel
from nopg.linalg import Auto, Solver
from nopg.models import LocalModel, PaperModel
from nopg.models._model import Queries


@dataclass(frozen=True)
class PaperTerms(ControlProblem):
    """All of the paper's equation that does not depend on the policy.

    Attributes:
        model: The paper's model.
        initial: The states the task starts in, bound to the model, equally likely.
        discount: γ in [0, 1).
        unknown_value: v, the value of leaving the data; the worst that can happen if not given.
        rows: The row of the log that each row of the model's data comes from, shape (n,); None for the same.
        solver: Of the linear systems.
        note: What the model takes of the memory.
    """

    model: PaperModel
    initial: Queries
    discount: float
    unknown_value: float
    rows: torch.Tensor | None = None
    solver: Solver = field(default_factory=Auto, compare=False)
    note: str = ""

    @property
    def data(self) -> Transitions:
        """The transitions, in the order of the log."""
        return self.model.data if self.rows is None else self.model.data.take(self.rows.argsort())

    @property
    def stored_data(self) -> Transitions:
        """The transitions in the order of the nodes."""
        return self.model.data

    @property
    def initial_states(self) -> torch.Tensor:
        """Raw states that the task starts in, shape (n₀, d_s)."""
        return self.model.data.schema.decode(self.initial.features.double())

    @cached_property
    def local_model(self) -> LocalModel:
        """The local model of the same data, fitted when it is first asked for."""
        data = self.data
        return LocalModel(data if data.initial_states is not None else data.starting_at(self.initial_states))

    @property
    def metric(self) -> GaussianKernel:
        """The kernel on states."""
        return self.model.bandwidths.state_kernel

    @property
    def description(self) -> str:
        """The model and its equation in one sentence."""
        return (
            f"the paper's model (Nadaraya-Watson) with up to {self.model.node_queries.pattern.row_length} "
            f"candidates for each of {self.model.num_nodes} samples"
        )

    @property
    def most_candidates(self) -> int | None:
        """K, the most candidates of a row."""
        return self.model.search.most_candidates

    def settings(self) -> dict[str, Any]:
        """Return plain values from which the same problem is built on the same data."""
        return {
            "name": PaperModel.Config.name,
            "unknown_value": self.unknown_value,
            "bandwidths": self.model.bandwidths.source,
            **self.model.settings(),
        }

    @property
    def num_initial(self) -> int:
        """n₀."""
        return len(self.initial.features)

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Self:
        """Return the same problem in another precision, or on another device; what is not given stays."""
        model = self.model.to(dtype, device)
        return self if model is self.model else replace(self, model=model, initial=self.initial.to(model))
