"""The paper's model and all of its Bellman equation that does not depend on the policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import torch

from nopg._checks import check_discount
from nopg._memory import gigabytes
from nopg._seeding import generator
from nopg.bellman._equation import BellmanEquation
from nopg.bellman._estimate import GradientEstimator
from nopg.bellman._nopg import NOPG
from nopg.bellman._paper_terms import PaperTerms
from nopg.bellman._problem import float_array, whole_array
from nopg.bellman._solution import BellmanSolution
from nopg.bundles._fields import Fields
from nopg.data import Transitions
from nopg.errors import ArgumentError
from nopg.kernels import Bandwidths, select_bandwidths
from nopg.models import MonteCarlo, PaperModel
from nopg.models._candidates import CandidateSearch
from nopg.models._config import PaperModelConfig
from nopg.models._footprint import Footprint, memory_budget
from nopg.models._prior_mass import DEFAULT_PRIOR_MASS
from nopg.models._row_order import next_state_order
from nopg.policies import Policy

# The most draws per next state that a saved problem may ask for.
_MOST_DRAWS = 1_000


class PaperProblem(PaperTerms, model=PaperModelConfig.name):
    """The paper's model and its equation: build it from a model, or `ControlProblem.from_data`."""

    default_updates: ClassVar[int] = 1_500  # the supplement's

    @classmethod
    def build(
        cls,
        model: PaperModel,
        initial_features: torch.Tensor,
        *,
        discount: float,
        unknown_value: float | None = None,
        rows: torch.Tensor | None = None,
    ) -> PaperProblem:
        """Bind the initial states, given as features (n₀, d_f), to the model."""
        gamma = check_discount(discount)
        v = model.default_unknown_value(gamma) if unknown_value is None else unknown_value
        return cls(model, model.bind(initial_features), gamma, v, rows)

    @classmethod
    def _fitted(
        cls,
        config: PaperModelConfig,
        data: Transitions,
        discount: float,
        *,
        costs: torch.Tensor | None,
        most_candidates: int | None,
    ) -> PaperProblem:
        """Select bandwidths, find the candidates that memory allows, and bind the initial states."""
        if costs is not None:
            raise ArgumentError("the paper's model fits no costs; use the local model")
        budget = memory_budget(config.memory_budget)
        draws = 1 if config.integration is None else config.integration.num_samples
        footprint = Footprint.of(data, len(data) * draws)
        if most_candidates is None:
            most_candidates = footprint.affordable(budget)
        h = config.bandwidths or select_bandwidths(data)
        rows = next_state_order(data, h.state_kernel)
        model = PaperModel(
            data.take(rows),
            h,
            prior_mass=DEFAULT_PRIOR_MASS if config.prior_mass is None else config.prior_mass,
            integration=config.integration,
            search=CandidateSearch(most_candidates=most_candidates),
            dtype=config.dtype(len(data)),
            device=config.device,
        )
        problem = cls.build(
            model,
            data.schema.encode(data.starts),
            discount=discount,
            unknown_value=config.unknown_value,
            rows=rows,
        )
        K = model.node_queries.pattern.row_length
        note = (
            f"{footprint.queries} rows of up to {K} candidates, about {gigabytes(footprint.bytes(K))} of "
            f"the {gigabytes(budget)} that may be taken"
        )
        return replace(problem, solver=config.new_solver(), note=note)

    @classmethod
    def _restored(
        cls,
        settings: Fields,
        data: Transitions,
        discount: float,
        arrays: Mapping[str, torch.Tensor],
    ) -> PaperProblem:
        features = len(data.schema.features)
        for name in ("q", "mu"):
            float_array(arrays, name, 1)
        parts = [
            float_array(arrays, f"bandwidths.{name}", 1) for name in ("states", "actions", "next_states")
        ]
        if [len(part) for part in parts] != [features, len(data.schema.actions), features]:
            raise ArgumentError(f"there are {[len(part) for part in parts]} bandwidths for {data.schema}")
        rule = None
        if settings.has("integration"):
            drawn = settings.object("integration")
            rule = MonteCarlo(drawn.integer("num_samples", least=1), drawn.integer("seed"))
            if rule.num_samples > _MOST_DRAWS:
                raise ArgumentError(f"{rule.num_samples} draws per next state; at most {_MOST_DRAWS}")
        limits = ("most_candidates", "num_candidates", "num_kept")
        search = CandidateSearch(
            *(settings.integer(name, least=1) if settings.has(name) else None for name in limits)
        )
        h = Bandwidths.from_values(*parts, source=settings.text("bandwidths"))
        prior = settings.number("prior_mass")
        model = PaperModel(data, h, prior_mass=prior, integration=rule, search=search)
        rows = whole_array(arrays, "rows")
        if not torch.equal(rows.sort().values, torch.arange(len(data))):
            raise ArgumentError("the rows of the nodes are not those of the data")
        return cls.build(
            model,
            data.schema.encode(data.starts),
            discount=discount,
            unknown_value=settings.number("unknown_value"),
            rows=rows,
        )

    def estimator(self) -> GradientEstimator:
        """Return the paper's estimator of the policy gradient."""
        return NOPG(self, solver=self.solver)

    def solve(self, policy: Policy, *, seed: int = 0) -> BellmanSolution:
        """Return the solution under a policy, certified in float64 on the CPU.

        It depends on the policy alone: what the solver keeps of earlier ones is dropped.
        """
        self.solver.reset()
        exact = self.to(torch.float64, "cpu")
        return exact.equation(policy, generator(seed, "actions")).solve(self.solver)

    def restore(self, policy: Policy, arrays: Mapping[str, torch.Tensor], *, seed: int) -> BellmanSolution:
        """Return the solution of saved q and μ, certified again."""
        q, mu = arrays["q"], arrays["mu"]
        if not q.shape == mu.shape == (self.model.num_nodes,):
            raise ArgumentError(
                f"there are {self.model.num_nodes} nodes, but {len(q)} values and {len(mu)} visits"
            )
        solution = self.equation(policy, generator(seed, "actions")).certify(q, mu)
        if not solution.certificate.converged:
            raise ArgumentError("q and μ do not solve the equation of the saved data")
        return solution

    def equation(
        self, policy: Policy, rng: torch.Generator, *, out: BellmanEquation | None = None
    ) -> BellmanEquation:
        """Return the equation of a policy; see `BellmanEquation.of`."""
        return BellmanEquation.of(self, policy, rng, out=out)
