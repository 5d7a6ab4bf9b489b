"""The estimators of the study on the regulator, each on its log, with our settings or the supplement's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from nopg import Bandwidths
from nopg.bellman import ControlProblem
from nopg.bellman._estimate import GradientEstimator
from nopg.data import Transitions
from nopg.envs import LQR
from nopg.errors import SupportWarning
from nopg.models._config import LocalModelConfig
from nopg.paper import NOPG, PaperModel, PaperProblem
from studies.baselines import DPG, PWIS, LoggedEpisodes, QuadraticForm
from studies.paper._experiment import Mode
from studies.paper._lqr_data import LOGS, Log, rows_within
from studies.paper._lqr_support import Support, nopg_bandwidths

__all__ = ["METHODS", "Method", "Prepared"]

# Rows beyond are left out, except in faithful mode: the states of the log grow to 10⁶, and no kernel width
# suits all. Chosen with the factor on the actions.
_RANGE = 7.0
# DPG: fits of the critic at a point of the line, where it must forget the last one, and per update of a path.
_CRITIC_STEPS, _CRITIC_STEPS_PER_UPDATE = 1_000, 100


@dataclass(frozen=True, slots=True)
class Method:
    """An estimator on a log.

    Attributes:
        log: Name of the log.
        kind: The estimator.
        label: On the page.
        learning_rate: Of its own ascent, the supplement's.
        faithful: Whether the supplement has it.
        ascends: Whether its own ascent is followed.
        claimed: Whether a claim rests on it, which further datasets then check.
    """

    log: str
    kind: Literal["paper", "local", "dpg", "dpg-full", "pwis"]
    label: str
    learning_rate: float = 0.5
    faithful: bool = False
    ascends: bool = True
    claimed: bool = False


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "nopg-d": Method("printed", "paper", "NOPG-D, paper's model", faithful=True, claimed=True),
        "local": Method("printed", "local", "NOPG-D, LocalModel"),
        "dpg": Method("printed", "dpg", "DPG, supplement's critic", faithful=True),
        "dpg-full": Method("printed", "dpg-full", "DPG, full quadratic critic"),
        "nopg-d-starts": Method("starts", "paper", "NOPG-D, paper's model", ascends=False),
        "local-starts": Method("starts", "local", "NOPG-D, LocalModel", ascends=False),
        "nopg-d-noise": Method("noise", "paper", "NOPG-D, paper's model", ascends=False),
        "local-noise": Method("noise", "local", "NOPG-D, LocalModel", ascends=False),
        "nopg-d-covering": Method("covering", "paper", "NOPG-D, paper's model", claimed=True),
        "local-covering": Method("covering", "local", "NOPG-D, LocalModel", claimed=True),
        "nopg-s": Method("gaussian", "paper", "NOPG-S, paper's model", 0.25, faithful=True, claimed=True),
        "pwis": Method("gaussian", "pwis", "PWIS", 2.5e-4, faithful=True),
    }
)


class Prepared:
    """A method with its data: what the trial of one seed and mode needs.

    Args:
        method: The method.
        seed: Of the log.
        mode: "faithful": the supplement's bandwidths, and all rows. "ours": rows within
            ±7, our bandwidths, all candidates; self-normalised weights for PWIS, on whole episodes.
    """

    def __init__(self, method: Method, seed: int, mode: Mode) -> None:
        self.method, self.mode = method, mode
        self.log: Log = LOGS[method.log]
        logged = self.log.data(seed)
        within = rows_within(logged, _RANGE)
        self.data = logged if mode == "faithful" or method.kind == "pwis" else within
        if self.log.std is None:
            self.bandwidths = nopg_bandwidths(logged)
        else:  # the actions of a state lie σ apart
            h_s, sigma = self.log.bandwidths[0], self.log.std
            self.bandwidths = Bandwidths.from_values(h_s, (sigma, sigma), source="the supplement, and σ")
        self.support = Support(within, self.bandwidths)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # a few wild rows are part of the set-up
            self._problem = self._new_problem()

    @property
    def num_action_samples(self) -> int | None:
        """Draws of a Gaussian policy; sigma points if None."""
        return 15 if self.mode == "faithful" else None

    def estimator(self, *, ascent: bool = False) -> GradientEstimator:
        """Return an estimator without a past; a critic learns less per update of an ascent."""
        kind, data, gamma = self.method.kind, self.data, LQR().discount
        if isinstance(self._problem, PaperProblem):
            return NOPG(self._problem, tolerance=1e-6)
        if self._problem is not None:
            return self._problem.estimator()
        if kind == "pwis":
            episodes = LoggedEpisodes.from_transitions(data, self.log.log_density)
            return PWIS(episodes, gamma, weights="self-normalised" if self.mode == "ours" else "per-decision")
        form = QuadraticForm(2, 2, cross=kind == "dpg-full")
        steps = _CRITIC_STEPS_PER_UPDATE if ascent else _CRITIC_STEPS
        return DPG(data, gamma, critic_steps=steps, critic=form)

    def _new_problem(self) -> ControlProblem | None:
        data, gamma = self.data, LQR().discount
        if self.method.kind == "local":
            return ControlProblem.from_data(data, gamma, model=_local_config(data, gamma))
        if self.method.kind != "paper":
            return None
        h = self.bandwidths
        if self.mode == "faithful":
            h = Bandwidths.from_values(*self.log.bandwidths, source="the supplement")
        return PaperProblem(PaperModel(data, h), data.starts, gamma)


def _local_config(data: Transitions, gamma: float) -> LocalModelConfig:
    """Return the default model with the paper's value of leaving the data, the lowest reward for ever.

    The default value is the worst mean of a path. From gains that let the state grow, leaving is then better
    than staying, and the direction turns round.
    """
    return LocalModelConfig(unknown_value=float(data.rewards.min()) / (1 - gamma))
