"""Four tasks of NeoRL-2: published data, costs and simulators, fixed before the first run.

`studies/data.md` says where data and simulators are from.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from nopg import Transitions
from nopg._columns import Exogenous
from nopg.errors import DataError

Array = npt.NDArray[np.float64]

# DMSD: time step, force at an action of 1, mass; steps after which the discount leaves 0.2 %.
MASSES_STEP, _FORCE, _MASS, _LONG = 0.2, 30.0, 20.0, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task."""

    file: str  # Of the data.
    rows: tuple[int, ...] = (2_000, 10_000)  # First rows of the data that are taken, one run for each number.
    states: Sequence[str]  # Names of the columns.
    actions: Sequence[str]  # Names of the actions, all within [−1, 1].
    reward: str  # The simulator's reward as a formula of the columns.
    exogenous: Mapping[str, Exogenous] = field(default_factory=dict)  # Columns that no action moves.
    discount: float  # γ.
    steps: int  # Most steps of an episode; the targets of DMSD then rest.
    episodes: int = 100  # Whose sums of rewards are averaged.
    simulator: tuple[str, str]  # Module and class of the simulator.
    published: Mapping[str, float]  # Sums of rewards, the best by the true return, from all rows.

    def log(self, folder: Path, rows: int | None, *, stated: bool) -> Transitions:
        """Return the first rows of the published data, or all, without constant columns."""
        path = folder / self.file
        if not path.exists():
            raise DataError(f"{path} does not exist; get the data of NeoRL-2 and give its folder with --data")
        given = {name: part[:rows] for name, part in np.load(path).items()}
        ended = (given["done"] + given["truncated"]).ravel() > 0
        kept = np.ptp(given["obs"], axis=0) > 0
        states = [name for name, one in zip(self.states, kept, strict=True) if one]
        data = Transitions.from_arrays(
            given["obs"][:, kept],
            given["action"],
            given["reward"].ravel(),
            given["next_obs"][:, kept],
            terminated=given["done"].ravel() > 0,
            truncated=given["truncated"].ravel() > 0,
            episodes=np.concatenate([[0], np.cumsum(ended)[:-1]]),
            state_names=states,
            action_names=list(self.actions),
            bounds=dict.fromkeys(self.actions, (-1.0, 1.0)),
            exogenous={name: kind for name, kind in self.exogenous.items() if name in states},
        )
        return data.with_reward(self.reward) if stated else data

    def plants(self) -> tuple[list[Any], Array]:
        """Return the plants of all episodes, and the first states, from seeds that are always the same."""
        module, name = self.simulator
        found = [_simulator(module, name, seed) for seed in range(self.episodes)]
        if name == "FusionEnv":
            for network in ("kstar_lstm", "bpw_nn"):
                shared = _Together(getattr(found[0][0], network), self.episodes)
                for plant, _ in found:
                    setattr(plant, network, shared)
        return [plant for plant, _ in found], np.stack([state for _, state in found])

    def rewards(self, law: Callable[[Array], Any], kept: Sequence[str]) -> Array:
        """Return the rewards (T, episodes) of a law on these columns, 0 after an end."""
        if self.simulator[0] == "dmsd":
            return _masses(law)
        plants, states = self.plants()
        found, alive = np.zeros((self.steps, self.episodes)), np.arange(self.episodes)
        columns = [self.states.index(name) for name in kept]
        with ThreadPoolExecutor(self.episodes if self.simulator[0] == "fusion" else 1) as pool:
            for row in found:
                actions = np.asarray(law(states[:, columns]))
                made = [*pool.map(lambda k, u: plants[k].step(u), alive, actions)]
                row[alive] = [one[1] for one in made]
                going = np.array([not one[2] for one in made])
                states, alive = np.stack([one[0] for one in made])[going], alive[going]
                if not len(alive):
                    break
        return found


@cache
def _drawn_masses() -> tuple[Array, Array, Array]:
    """Return initial states, targets of all steps, and the matrix of a step, as the simulator draws them."""
    plants, states = TASKS["DMSD"].plants()
    targets = np.stack([one._targets for one in plants], axis=1)  # noqa: SLF001 - not in the observation
    return states, targets, plants[0].dynamics_mat


def _masses(law: Callable[[Array], Any]) -> Array:
    """Return rewards (200, m) on DMSD, all episodes at once, by the simulator's equations."""
    states, targets, matrix = _drawn_masses()
    x, goals, rewards = states[:, :4], states[:, 4:], list[Array]()
    for t in range(_LONG):
        force = _FORCE * np.clip(np.asarray(law(np.concatenate([x, goals], axis=1))), -1.0, 1.0)
        x = x @ matrix.T + MASSES_STEP / _MASS * force @ np.eye(2, 4, 2)
        goals = targets[min(t + 1, len(targets) - 1)]
        rewards.append(-np.log(np.abs(x[:, :2] - goals) + 0.01).sum(axis=1))
    return np.stack(rewards)


class _Together:
    """A network of the simulator, which predicts for all episodes at once; each has a thread of its own."""

    def __init__(self, network: Any, count: int) -> None:
        self._network, self._asked, self._found = network, dict[int, Array](), dict[int, Array]()
        self._all = threading.Barrier(count, action=self._predict)

    def predict(self, x: Array) -> Array:
        self._asked[threading.get_ident()] = x.copy()
        self._all.wait()
        return self._found[threading.get_ident()]

    def _predict(self) -> None:
        predicted = self._network.predict(np.stack([*self._asked.values()]))
        self._found, self._asked = dict(zip(self._asked, predicted, strict=True)), {}


@cache
def _class(module: str, name: str) -> Any:
    if name == "FusionEnv":  # a network is read once, and runs in one thread
        import onnxruntime

        options, session = onnxruntime.SessionOptions(), onnxruntime.InferenceSession
        options.intra_op_num_threads = 1
        onnxruntime.InferenceSession = cache(lambda file: session(file, options))
    try:
        return getattr(import_module(f"neorl2.envs.{module}"), name)
    except ImportError as error:
        raise DataError(f"no simulator ({error}); see studies/data.md") from None


def _simulator(module: str, name: str, seed: int) -> tuple[Any, Array]:
    """Return a plant of the simulator and its first state; some draw from numpy's own generator."""
    plant = _class(module, name)
    np.random.seed(seed)  # noqa: NPY002
    plant = plant(mode="train")
    state, _ = plant.reset(seed=seed)
    if name == "SimglucoseEnv":  # a third of the time of looking the same values up in a pandas Series
        patient = plant.env.env.patient
        patient._params = SimpleNamespace(**patient._params)  # noqa: SLF001
    return plant, state


_DISTANCE, _SPEED, _TILT = ("sqrt({x}**2 + {y}**2)", "sqrt({vx}**2 + {vy}**2)", "abs({angle})")
_ROCKET = ("x", "y", "vx", "vy", "angle", "rate")
_BEFORE, _AFTER = (
    " + ".join((_DISTANCE, _SPEED, _TILT)).format(**{name: text.format(name) for name in _ROCKET})
    for text in ("{}", "next({})")
)
_LANDED = "(abs(next(y)) <= 0.05)"
# The simulator also asks for |vy| < 2; a fall from the start ends at 1.7.
_SAFE = "(abs(next(angle)) < 0.3 and abs(next(vx)) < 0.5)"
_FUEL = "0.15*(main > 0)*(main + 1) + 0.03*(abs(side) > 0.5)*abs(side)"
_RISK = "(1.509*(log(max({}, 10))**1.084 - 5.381))**2"
_FUSION = ("0.2", "0.5", "0.05")
_OUTPUTS, _TARGETS = ("beta", "q95", "li"), ("beta_target", "q95_target", "li_target")
_PATIENT = tuple(f"patient{k}" for k in range(30))

TASKS: Mapping[str, Task] = {
    "DMSD": Task(
        file="DMSD-train.npz",
        rows=(500, 2_000, 100_000),
        states=("x1", "x2", "v1", "v2", "g1", "g2"),
        actions=("u1", "u2"),
        reward="-(log(abs(next(x1) - next(g1)) + 0.01) + log(abs(next(x2) - next(g2)) + 0.01))",
        exogenous={"g1": "log", "g2": "log"},
        discount=0.97,
        steps=100,
        episodes=1_000,
        simulator=("dmsd", "DoubleMassSpringDamperEnv"),
        published={"the data": 494.5, "TD3+BC": 522.1, "MOBILE": 557.7, "behaviour cloning": 563.6}
        | {"CQL": 605.8, "RAMBO": 654.8, "MCQ": 667.3, "EDAC": 674.7, "an expert": 849.5},
    ),
    "RocketRecovery": Task(
        file="RocketRecovery-val.npz",
        states=(*_ROCKET, "wind"),
        actions=("main", "side"),
        reward=f"(1 - {_LANDED})*(100*({_BEFORE} - ({_AFTER})) - ({_FUEL})) + {_LANDED}*(200*{_SAFE} - 100)",
        exogenous={"wind": "log"},
        discount=0.99,
        steps=500,
        simulator=("rocketrecovery", "RocketRecoveryEnv"),
        published={"MOBILE": -8.0, "COMBO": 110.7, "the data": 113.0, "MCQ": 117.6, "TD3+BC": 130.2}
        | {"an expert": 208.0},
    ),
    "Fusion": Task(
        file="Fusion-val.npz",
        states=(
            *("current", "elongation", "upper", "lower", "inner", "outer"),
            *(*_OUTPUTS, *_TARGETS, "beam1", "beam2", "beam3"),
        ),
        actions=tuple(
            f"set_{name}" for name in ("current", "elongation", "upper", "lower", "inner", "outer")
        ),
        reward="-0.5*log(("
        + " + ".join(
            f"((next({y}) - {goal})/{scale})**2"
            for y, goal, scale in zip(_OUTPUTS, _TARGETS, _FUSION, strict=True)
        )
        + ")/3)",
        exogenous=dict.fromkeys((*_TARGETS, "beam1", "beam2", "beam3"), "log"),
        discount=0.97,
        steps=100,
        simulator=("fusion", "FusionEnv"),
        published={"the data": -7.3, "CQL": 7.3, "EDAC": 11.7, "RAMBO": 15.0, "an expert": 98.0},
    ),
    "Simglucose": Task(
        file="Simglucose-train.npz",
        states=("glucose", *_PATIENT),
        actions=("insulin",),
        reward=f"(next(glucose) > 40)*(next(glucose) < 600)*"
        f"(1 + 0.1*({_RISK.format('glucose')} - {_RISK.format('next(glucose)')})) - 15*(next(glucose) <= 40)",
        exogenous=dict.fromkeys(_PATIENT, "hold"),
        discount=0.99,
        steps=480,
        simulator=("simglucose", "SimglucoseEnv"),
        published={"MOPO": 170.9, "the data": 353.5, "TD3+BC": 355.0, "behaviour cloning": 359.0}
        | {"an expert": 475.0},
    ),
}
"""By name. The data of DMSD and Simglucose are those of training, of the others those of validation."""
