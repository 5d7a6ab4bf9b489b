"""What the transition models are compared on: control tasks, and quantities that need no training."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch

import nopg
from examples.pendulum_grid import LIMITS
from nopg._seeding import generator
from nopg.bellman import ControlProblem
from nopg.data import Transitions
from nopg.environments import (
    LQR,
    PENDULUM_GRIDS,
    CartPole,
    CartPoleParameters,
    Environment,
    LQRParameters,
    MountainCar,
    Pendulum,
    PendulumParameters,
)
from nopg.errors import SupportWarning
from nopg.experiments import read_demonstrations
from nopg.gradients import NOPG, solution_gradient
from nopg.graph import (
    DEFAULT_PRIOR_MASS,
    CandidateSearch,
    LocalLinear,
    LocalLinearPredictor,
    NadarayaWatson,
    NadarayaWatsonPredictor,
    Predictor,
    TransitionModel,
    best_shape,
    rolled_out_errors,
)
from nopg.neighbors import NeighborTree
from nopg.policies import LinearPolicy, MLPPolicy
from nopg.rollouts import (
    MixtureOfGaussians,
    Trajectories,
    UniformAgent,
    collect,
    collect_grid,
    collect_uniform,
    simulate,
    synthetic_demonstrations,
)
from nopg.training import Controller

__all__ = [
    "MODELS",
    "TRIALS",
    "ControlTask",
    "Model",
    "Probe",
    "Promise",
    "Record",
    "control_tasks",
    "probes",
]

Model = Literal["local-linear", "nadaraya-watson"]
Record = dict[str, Any]
MODELS: tuple[Model, ...] = get_args(Model)
TRIALS = 10


@dataclass(frozen=True)
class Promise:
    """What the returns of the trials of one row must satisfy.

    Attributes:
        median: The least that their median may be.
        worst: The least that any of them may be.
        reached: A return, and how many trials must reach it.
        announced: Whether, of the trials that return below −500, nine in ten must have been announced: more
            than half of the mass at the start unknown, said before the policy ran.
        limit: The return of the best policy for the discount, where it is known.
    """

    median: float | None = None
    worst: float | None = None
    reached: tuple[float, int] | None = None
    announced: bool = False
    limit: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.median is not None:
            parts.append(f"median ≥ {self.median:.0f}")
        if self.worst is not None:
            parts.append(f"worst ≥ {self.worst:.0f}")
        if self.reached is not None:
            parts.append(f"≥ {self.reached[0]:.0f} in {self.reached[1]} of {TRIALS}")
        if self.announced:
            parts.append("failures announced")
        told = ", ".join(parts) or "nothing promised"
        return told if self.limit is None else f"{told} (limit {self.limit:.0f})"

    def kept(self, records: Sequence[Record]) -> bool | None:
        """Tell whether the trials satisfy it; None if some are missing or nothing is promised."""
        if len(records) < TRIALS or self == Promise():
            return None
        returns = [record["return"] for record in records]
        failed, said = failures(records)
        return (
            (self.median is None or statistics.median(returns) >= self.median)
            and (self.worst is None or min(returns) >= self.worst)
            and (self.reached is None or sum(x >= self.reached[0] for x in returns) >= self.reached[1])
            and (not self.announced or said >= 0.9 * failed)
        )


def failures(records: Sequence[Record]) -> tuple[int, int]:
    """Return how many trials came out below −500, and how many of those were announced."""
    failed = [record for record in records if record["return"] < -500]
    return len(failed), sum(record["start_unknown"] > 0.5 for record in failed)


@dataclass(frozen=True)
class ControlTask:
    """Data to train on, and what the trained controller must return.

    Attributes:
        name: The row.
        promise: What the local-linear model must reach.
        discount: γ.
        trial: The dataset of a trial, from its seed.
        evaluate: Runs a controller on the true dynamics.
    """

    name: str
    promise: Promise
    discount: float
    trial: Callable[[int], Transitions]
    evaluate: Callable[[Controller], Trajectories]

    trials = TRIALS
    models = MODELS

    def measure(self, model: Model, seed: int) -> Record:
        """Train with nothing set but the model, and run the controller."""
        data = self.trial(seed)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SupportWarning)  # starts outside the data are part of the study
            result = nopg.optimize(data, self.discount, start="given", model=model, seed=seed, progress=False)
        seconds = time.process_time() - began

        run = self.evaluate(result.policy)
        return {
            "return": float(run.returns.mean()),
            "discounted": float(run.discounted_returns(self.discount).mean()),
            "predicted": result.expected_return,
            "start_unknown": result.start_unknown,
            "unknown_mass": result.unknown_mass,
            "updates": len(result.history),
            "seconds": seconds,
        }


@dataclass(frozen=True)
class Probe:
    """A quantity that is measured without judging a trained controller.

    Attributes:
        name: The row.
        measure: Returns the quantities of one model and one dataset.
        trials: How many datasets.
        models: Which models are measured one by one.
    """

    name: str
    measure: Callable[[Model, int], Record]
    trials: int = TRIALS
    models: tuple[Model, ...] = MODELS


def control_tasks(demonstrations: Path | None = None) -> list[ControlTask]:
    """Return all control tasks; without their file, those on human demonstrations can only be listed."""
    grids = {200: (-420, None), 450: (-390, -600), 800: (-390, -600), 1250: (-385, -600)}
    limit, far_limit = LIMITS[0.97], LIMITS[0.99]
    tasks = [
        ControlTask(
            f"pendulum grid {n}", Promise(median, worst, limit=limit), 0.97, partial(_grid, n), _swing_up
        )
        for n, (median, worst) in grids.items()
    ]
    tasks.append(
        ControlTask(
            "pendulum grid 1800, γ .99",
            Promise(-325, limit=far_limit),
            0.99,
            partial(_grid, 1800),
            _swing_up,
        )
    )
    for n in (1000, 3000, 5000):
        promise = Promise(None if n == 1000 else -400, announced=True, limit=limit)
        tasks.append(ControlTask(f"pendulum random {n}", promise, 0.97, partial(_random, n), _swing_up))
    for source, path in (("human", demonstrations), ("synthetic", None)):
        for count, median in ((1, -200), (2, -100), (5, -85)):
            promise = Promise(median) if source == "human" else Promise()
            trial = partial(_drives, source, path, count)
            tasks.append(ControlTask(f"mountain car {source} {count}", promise, 0.99, trial, _drive))
    for name, plant in _CART_POLES.items():
        tasks.append(
            ControlTask(
                name, Promise(reached=(9000, 8)), 0.99, partial(_pushes, plant), partial(_balance, plant)
            )
        )
    return tasks


def probes(demonstrations: Path | None = None) -> list[Probe]:
    """Return all other measurements."""
    predictions = [
        Probe(f"prediction {name}", partial(_prediction_errors, plant, trial), trials=1)
        for name, plant, trial in (
            ("pendulum grid 450", Pendulum(), partial(_grid, 450)),
            ("pendulum random 3000", Pendulum(), partial(_random, 3000)),
            ("mountain car human 2", MountainCar(), partial(_drives, "human", demonstrations, 2)),
            ("mountain car synthetic 2", MountainCar(), partial(_drives, "synthetic", None, 2)),
            (
                "cart-pole 50 Hz",
                _CART_POLES["cart-pole 50 Hz"],
                partial(_pushes, _CART_POLES["cart-pole 50 Hz"]),
            ),
            ("stochastic pendulum", Pendulum(), _noisy),
            ("LQR", _REGULATOR, _regulator_data),
        )
    ]
    return [
        *predictions,
        Probe("LQR gradient", _gradient_error),
        Probe("stochastic pendulum", _noisy_value),
        Probe("cost of an update", _cost, trials=1, models=("local-linear",)),
    ]


def build_problem(
    data: Transitions, model: Model, discount: float, *, num_candidates: int | None = None
) -> ControlProblem:
    """Return the problem that `nopg.optimize` builds from these data, or one with rows of K candidates."""
    h = nopg.select_bandwidths(data)
    transitions: TransitionModel
    if model == "local-linear":
        transitions = LocalLinear(data, h.state_kernel)
    else:
        search = CandidateSearch(num_candidates=num_candidates)
        transitions = NadarayaWatson(data, h, prior_mass=DEFAULT_PRIOR_MASS, search=search)
    return ControlProblem.build(transitions, data.schema.encode(data.starts), discount=discount)


# Pendulum: 500 steps from hanging.


def _grid(size: int, seed: int) -> Transitions:
    del seed  # the data are fixed; the seed is that of the training
    return collect_grid(Pendulum(), PENDULUM_GRIDS[size])


def _random(size: int, seed: int) -> Transitions:
    plant = Pendulum(start="upright")
    data = collect(plant, MixtureOfGaussians(), episodes=size // 500, steps=500, seed=seed)
    return data.starting_at([[math.pi, 0.0]])


def _swing_up(controller: Controller) -> Trajectories:
    return simulate(Pendulum(), controller, steps=500)


# Mountain car: −1 per step, 20 starts, 500 steps at most.


@cache
def _recordings(source: str, path: Path | None) -> Transitions:
    """Return ten demonstrations, by a person from a file or the package's synthetic ones."""
    if source == "synthetic":
        return synthetic_demonstrations()
    if path is None:
        raise ValueError("the human demonstrations are no part of the package; say --demonstrations PATH")
    return read_demonstrations(path)


def _drives(source: str, path: Path | None, count: int, seed: int) -> Transitions:
    data = _recordings(source, path)
    assert data.episodes is not None
    chosen = torch.tensor([(seed * count + j) % 10 for j in range(count)])
    return replace(data.take(torch.isin(data.episodes, chosen)), initial_states=None)


def _drive(controller: Controller) -> Trajectories:
    starts = MountainCar().initial(20, rng=generator(0, "evaluation"))
    return simulate(MountainCar(), controller, steps=500, initial_states=starts)


# Cart-pole: 10⁴ steps, 10 starts.

_CART_POLES = {
    "cart-pole 50 Hz": CartPole(
        CartPoleParameters(rate=50, angle_limit=0.25, start_angle=0.1, max_voltage=5)
    ),
    "cart-pole 500 Hz, 3°": CartPole(CartPoleParameters(rate=500, max_voltage=5)),
}


def _pushes(plant: CartPole, seed: int) -> Transitions:
    data = collect(plant, UniformAgent(), episodes=300, steps=1000, seed=seed)
    starts = plant.initial(15, rng=generator(seed, "starts of the task"))
    return data.take(torch.arange(1500)).starting_at(starts)


def _balance(plant: CartPole, controller: Controller) -> Trajectories:
    starts = plant.initial(10, rng=generator(0, "evaluation"))
    return simulate(plant, controller, steps=10_000, initial_states=starts)


# Stochastic pendulum: noise of .5 N m on the torque, known to neither log nor reward.

_UNBOUNDED = Pendulum(PendulumParameters(max_torque=1e6))


def _noisy_step(states: torch.Tensor, torques: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    noise = 0.5 * torch.randn(torques.shape, dtype=torch.float64, generator=rng)
    return _UNBOUNDED.step(states, torques + noise)


def _noisy(seed: int) -> Transitions:
    data = collect_uniform(Pendulum(), 10_000, seed=seed)
    rng = generator(seed, "torque noise")
    return replace(data, next_states=_noisy_step(data.states, data.actions, rng))


@cache
def _swinger() -> tuple[Controller, float]:
    """Return a policy that swings up, and its discounted return from hanging under noise, by Monte Carlo."""
    plant = Pendulum()
    controller = nopg.optimize(
        _grid(800, 0), 0.97, start="given", model="local-linear", seed=0, updates=300, progress=False
    ).policy

    rng, states = generator(0, "evaluation"), plant.initial(2_000)
    total = torch.zeros(len(states), dtype=torch.float64)
    for t in range(400):
        torques = plant.applied(controller(states))
        next_states = _noisy_step(states, torques, rng)
        total += 0.97**t * plant.reward(states, torques, next_states)
        states = next_states
    return controller, float(total.mean())


def _noisy_value(model: Model, seed: int) -> Record:
    controller, truth = _swinger()
    began = time.process_time()
    equation = build_problem(_noisy(seed), model, 0.97).equation(
        controller.policy, generator(seed, "actions")
    )
    predicted = equation.solve().expected_return
    return {
        "predicted": predicted,
        "truth": truth,
        "error": abs(predicted - truth) / abs(truth),
        "start_unknown": equation.initial_unknown,
        "seconds": time.process_time() - began,
    }


# LQR: gains halfway to the best ones; 3 000 samples, uniform within ±1.5 in states and ±5 in actions, around
# the way from (1, 1) to rest.

_REGULATOR = LQR(LQRParameters(state_bound=1.5, action_bound=5.0))


def _regulator_data(seed: int) -> Transitions:
    return collect_uniform(_REGULATOR, 3_000, seed=seed)


def _gradient_error(model: Model, seed: int) -> Record:
    gain = _REGULATOR.optimal_gain() / 2
    began = time.process_time()
    problem = build_problem(_regulator_data(seed), model, _REGULATOR.parameters.discount)
    solution = problem.equation(LinearPolicy(gain), generator(seed, "actions")).solve()
    (ours,) = solution_gradient(solution)
    exact = _REGULATOR.gradient(gain)
    return {
        "error": float((ours - exact).norm() / exact.norm()),
        "predicted": solution.expected_return,
        "truth": _REGULATOR.expected_return(gain),
        "seconds": time.process_time() - began,
    }


# Prediction: from 200 states of the data, under random actions in the range of the data.


def _prediction_errors(
    plant: Environment, trial: Callable[[int], Transitions], model: Model, seed: int
) -> Record:
    """Return the median errors after 1 and 10 steps, in standard deviations of a logged step."""
    data, rng = trial(seed), generator(seed, "predictions")
    h = nopg.select_bandwidths(data)
    predictor: Predictor = NadarayaWatsonPredictor(data, h)
    if model == "local-linear":
        shape = best_shape(data, h.state_kernel, NeighborTree(h.state_kernel.scale(data.features)))
        predictor = LocalLinearPredictor(data, h.state_kernel, shape)

    low, high = data.actions.amin(dim=0), data.actions.amax(dim=0)
    draws = torch.rand(200, 10, data.actions.shape[1], dtype=torch.float64, generator=rng)
    actions = low + (high - low) * draws
    states = data.states[torch.randint(len(data), (200,), generator=rng)]
    truth = [states]
    for t in range(10):
        truth.append(plant.step(truth[-1], actions[:, t]))
    errors = rolled_out_errors(
        predictor,
        data.schema.encode(states),
        actions,
        truth_features=data.schema.encode(torch.stack(truth[1:], dim=1)),
        schema=data.schema,
        scale=(data.next_states - data.states).std(dim=0),
    )
    return {"after_1": float(errors[0]), "after_10": float(errors[9])}


# Cost: updates of both models in turn, with rows of the same length on average.


def _updates(problem: ControlProblem, data: Transitions) -> Iterator[None]:
    """Update a policy as `ascend` does, once each time it is asked."""
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    estimator, adam = NOPG(problem), torch.optim.Adam(policy.parameters(), lr=1e-2, maximize=True)
    while True:
        estimate = estimator.estimate(policy, rng=generator(0, "actions"))
        for parameter, part in zip(policy.parameters(), estimate.direction, strict=True):
            parameter.grad = part
        adam.step()
        yield


def _cost(model: Model, seed: int) -> Record:
    del model  # both, in turn
    data = collect_uniform(Pendulum(), 10_000, seed=seed)
    ours = build_problem(data, "local-linear", 0.97)
    policy = MLPPolicy.from_data(data.features, data.actions, rng=generator(0, "policy"))
    pattern = ours.equation(policy, generator(0, "actions")).node_backup.weights.pattern
    candidates = round(len(pattern.columns) / pattern.num_rows)
    papers = build_problem(data, "nadaraya-watson", 0.97, num_candidates=candidates)

    ascents = [_updates(problem, data) for problem in (ours, papers)]
    clocks = []
    for _ in range(23):
        for ascent in ascents:
            began = time.process_time()
            next(ascent)
            clocks.append(time.process_time() - began)
    # The first three of each warm up.
    local_linear, nadaraya_watson = statistics.mean(clocks[6::2]), statistics.mean(clocks[7::2])
    return {
        "local_linear": local_linear,
        "nadaraya_watson": nadaraya_watson,
        "ratio": local_linear / nadaraya_watson,
        "candidates": candidates,
        "nodes": pattern.num_rows,
    }
