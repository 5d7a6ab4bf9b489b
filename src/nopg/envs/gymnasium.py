"""Plants as Gymnasium environments; importing this module registers `nopg/…-v0`.

`gymnasium.make` imports it from the name before the colon:

    >>> import gymnasium
    >>> gymnasium.make("nopg.envs.gymnasium:nopg/MountainCar-v0").spec.max_episode_steps
    500
"""

from typing import Any, ClassVar, Literal

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

    The observation is the raw state in float64, angles neither wrapped nor split into cosine and sine, so
    that a log of it fits `Transitions` with the environment's names and angles. Its space has no bounds,
    because the box of an `Environment` is only what the collectors sample. The environment decides whether
    actions outside their box are clipped; `info["applied_action"]` is what the plant received, to be logged.

    The adapter never truncates: `gymnasium.make` adds a time limit with `max_episode_steps`. Each reset draws
    the seed of the initial state from `np_random`; `reset(options={"state": …})` starts in the given state.

    Args:
        environment: The plant.
        render_mode: "rgb_array" for frames from `render`: the states of the episode so far.

    Example:
        >>> env = GymnasiumEnvironment(Pendulum(start="upright"))
        >>> observation, info = env.reset(seed=0)
        >>> observation.tolist()
        [0.0, 0.0]
        >>> observation, reward, terminated, truncated, info = env.step(np.array([3.0]))
        >>> terminated, truncated, info["applied_action"].tolist()
        (False, False, [2.0])
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 30}  # type: ignore[misc]

    def __init__(self, environment: Environment, *, render_mode: Literal["rgb_array"] | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ArgumentError(f"render_mode must be 'rgb_array', got {render_mode!r}")
        self.environment, self.render_mode = environment, render_mode
        self._states: list[torch.Tensor] = []  # of the episode, each (1, d_s)
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
        state, names = (options or {}).get("state"), self.environment.state_names
        drawn = state is None
        start = self.environment.initial(1, rng=rng) if drawn else _row(state, names, "the state to start in")
        self._states = [start]
        return start[0].numpy().copy(), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Apply an action; returns observation (d_s,), reward, terminated, truncated (False) and info."""
        plant, s = self.environment, self._now()
        a = plant.applied(_row(action, plant.action_names, "the action"))
        s_next = plant.step(s, a)
        self._states.append(s_next)
        reward, terminated = plant.reward(s, a, s_next).item(), bool(plant.terminal(s_next).item())
        return s_next[0].numpy().copy(), reward, terminated, False, {"applied_action": a[0].numpy().copy()}

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a frame (400, 600, 3) with the states of the episode so far; nothing without a mode."""
        if self.render_mode is None:
            return None
        self._now()
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError("matplotlib", "figures") from None
        names, states = self.environment.state_names, torch.cat(self._states).numpy()
        canvas: Any = FigureCanvasAgg(Figure(figsize=(6, 4), dpi=100, layout="constrained"))
        panels = canvas.figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name, column in zip(panels, names, states.T, strict=True):
            axes.plot(column)
            axes.set_ylabel(name)
        panels[-1].set_xlabel("step")
        canvas.draw()
        return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()

    def _now(self) -> torch.Tensor:
        if not self._states:
            raise gymnasium.error.ResetNeeded("there is no episode yet; call reset() first")
        return self._states[-1]


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


def _make(
    plant: str, *, render_mode: Literal["rgb_array"] | None = None, **settings: Any
) -> GymnasiumEnvironment:
    """Return a plant by name; settings are its attributes."""
    return GymnasiumEnvironment(_PLANTS[plant][0](**settings), render_mode=render_mode)


for _name, (_, _steps) in _PLANTS.items():
    gymnasium.register(
        f"nopg/{_name}-v0", f"{__name__}:_make", max_episode_steps=_steps, kwargs={"plant": _name}
    )
