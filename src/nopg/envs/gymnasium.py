"""Plants as Gymnasium environments; importing this module registers `nopg/…-v0`.

`gymnasium.make` imports it from the name before the colon:

    >>> import gymnasium
    >>> gymnasium.make("nopg.envs.gymnasium:nopg/MountainCar-v0").spec.max_episode_steps
    500
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.envs import LQR, CartPole, Environment, MountainCar, Pendulum, TwoTanks
from nopg.errors import ArgumentError, MissingExtraError

try:
    import gymnasium
except ImportError:
    raise MissingExtraError("gymnasium", "gymnasium") from None

__all__ = ["GymnasiumEnvironment"]

Vector = npt.NDArray[np.float64]


class GymnasiumEnvironment(gymnasium.Env[Vector, Vector]):
    """Any `Environment` as a Gymnasium environment, one episode at a time.

    The observation is the raw state in float64, without bounds, angles neither wrapped nor split into cosine
    and sine. `info["applied_action"]` is what the plant received, to be logged. The adapter never truncates:
    `gymnasium.make` adds a time limit. `reset(options={"state": …})` starts in the given state.

    Example:
        >>> env = GymnasiumEnvironment(Pendulum(start="upright"))
        >>> observation, info = env.reset(seed=0)
        >>> observation.tolist()
        [0.0, 0.0]
        >>> observation, reward, terminated, truncated, info = env.step(np.array([3.0]))
        >>> terminated, truncated, info["applied_action"].tolist()
        (False, False, [2.0])
    """

    def __init__(self, environment: Environment) -> None:
        self.environment, self._state = environment, torch.empty(0)
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (len(environment.state_names),), np.float64
        )
        low, high = environment.action_low.numpy(), environment.action_high.numpy()
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Start an episode; returns the first observation (d_s,) and an empty info."""
        super().reset(seed=seed)
        rng = generator(int(self.np_random.integers(2**63)), "initial states")
        if (state := (options or {}).get("state")) is None:
            self._state = self.environment.initial(1, rng=rng)
        else:
            self._state = _row(state, self.environment.state_names, "the state to start in")
        return self._state[0].numpy().copy(), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Apply an action; returns observation (d_s,), reward, terminated, truncated (False) and info."""
        if not len(self._state):
            raise gymnasium.error.ResetNeeded("there is no episode yet; call reset() first")
        plant, s = self.environment, self._state
        a = plant.applied(_row(action, plant.action_names, "the action"))
        self._state = s_next = plant.step(s, a)
        reward, terminated = plant.reward(s, a, s_next).item(), bool(plant.terminal(s_next).item())
        return s_next[0].numpy().copy(), reward, terminated, False, {"applied_action": a[0].numpy().copy()}


def _row(values: Any, names: tuple[str, ...], what: str) -> torch.Tensor:
    """Return finite numbers, one per name, as a batch of one row."""
    row = as_tensor(values)
    if row.shape != (len(names),) or not bool(row.isfinite().all()):
        raise ArgumentError(f"{what} is {values}; give finite {', '.join(names)}")
    return row[None].clone()


# Plant and length of an episode: that of the paper's evaluations or data, if any.
_PLANTS: dict[str, tuple[type[Environment], int]] = {
    "CartPole": (CartPole, 10_000),
    "LQR": (LQR, 30),
    "MountainCar": (MountainCar, 500),
    "Pendulum": (Pendulum, 500),
    "TwoTanks": (TwoTanks, 60),
}


def _make(plant: str, **settings: Any) -> GymnasiumEnvironment:
    """Return a plant by name; settings are its attributes."""
    return GymnasiumEnvironment(_PLANTS[plant][0](**settings))


for _name, (_, _steps) in _PLANTS.items():
    gymnasium.register(
        f"nopg/{_name}-v0", f"{__name__}:_make", max_episode_steps=_steps, kwargs={"plant": _name}
    )
