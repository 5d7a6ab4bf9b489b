"""Plants as Gymnasium environments: episodes, spaces, seeds, frames, and registered ids."""

from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from nopg._seeding import generator
from nopg._typing import as_tensor
from nopg.envs._cart_pole import CartPole
from nopg.envs._environment import Environment
from nopg.envs._lqr import LQR
from nopg.envs._mountain_car import MountainCar
from nopg.envs._pendulum import Pendulum
from nopg.envs._two_tanks import TwoTanks
from nopg.errors import ArgumentError, MissingExtraError

try:
    import gymnasium
except ImportError:
    raise MissingExtraError("gymnasium", "gymnasium") from None

RenderMode = Literal["rgb_array"]
Vector = npt.NDArray[np.float64]


class GymnasiumEnvironment(gymnasium.Env[Vector, Vector]):
    """Any `Environment` as a Gymnasium environment, one episode at a time.

    The observation is the raw state in float64, angles neither wrapped nor split into cosine and sine, so
    that a log of it fits `Transitions` with the environment's names and angles. The observation space has no
    bounds, because the box of an `Environment` is only what the collectors sample. The action space is the
    box of actions, also in float64; the environment decides whether actions outside are clipped.

    `terminated` is that of the environment. The adapter never truncates: `gymnasium.make` adds a time limit
    with `max_episode_steps`. `info["applied_action"]` is the action that the plant received; log it instead
    of the requested one.

    `reset(seed=…)` seeds `np_random`, from which each reset draws the seed of the initial state;
    `reset(options={"state": …})` starts in the given state.

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

    def __init__(self, environment: Environment, *, render_mode: RenderMode | None = None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ArgumentError(f"render_mode must be 'rgb_array', got {render_mode!r}")
        self.environment = environment
        self.render_mode = render_mode
        self._state: torch.Tensor | None = None
        self._shown: list[torch.Tensor] = []

        dimensions = (len(environment.state_names),)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, dimensions, np.float64)
        low, high = environment.action_low.numpy(), environment.action_high.numpy()
        self.action_space = gymnasium.spaces.Box(low, high, dtype=np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Start an episode; returns the first observation (d_s,) and an empty info."""
        super().reset(seed=seed)
        rng = generator(int(self.np_random.integers(2**63)), "initial states")
        state, names = (options or {}).get("state"), self.environment.state_names
        self._state = (
            self.environment.initial(1, rng=rng)
            if state is None
            else _row(state, names, "the state to start in")
        )
        self._shown = [self._state[0]]
        return _observation(self._state), {}

    def step(self, action: Vector) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Apply an action; returns observation (d_s,), reward, terminated, truncated (False) and info."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("there is no episode yet; call reset() before step()")
        s, a = (
            self._state,
            self.environment.applied(_row(action, self.environment.action_names, "the action")),
        )

        s_next = self.environment.step(s, a)
        reward = self.environment.reward(s, a, s_next).item()
        terminated = bool(self.environment.terminal(s_next).item())

        self._state = s_next
        self._shown.append(s_next[0])
        return _observation(s_next), reward, terminated, False, {"applied_action": a[0].numpy().copy()}

    def render(self) -> npt.NDArray[np.uint8] | None:
        """Return a frame (400, 600, 3) with the states of the episode so far; nothing without a mode."""
        if self.render_mode is None:
            return None
        if self._state is None:
            raise gymnasium.error.ResetNeeded("there is nothing to draw yet; call reset() before render()")
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError("matplotlib", "figures") from None
        names, states = self.environment.state_names, torch.stack(self._shown).numpy()
        canvas: Any = FigureCanvasAgg(Figure(figsize=(6, 4), dpi=100, layout="constrained"))
        panels = canvas.figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name, column in zip(panels, names, states.T, strict=True):
            axes.plot(column)
            axes.set_ylabel(name)
        panels[-1].set_xlabel("step")
        canvas.draw()
        return np.asarray(canvas.buffer_rgba(), dtype=np.uint8)[:, :, :3].copy()


def _observation(states: torch.Tensor) -> Vector:
    observation: Vector = states[0].numpy().copy()
    return observation


def _row(values: Any, names: tuple[str, ...], what: str) -> torch.Tensor:
    """Return finite numbers, one per name, as a batch of one row."""
    row = as_tensor(values)
    if row.shape != (len(names),) or not bool(row.isfinite().all()):
        raise ArgumentError(f"{what} is {values}; give finite {', '.join(names)}")
    return row[None].clone()


_PLANTS: dict[str, type[Environment]] = {
    plant.__name__: plant for plant in (CartPole, LQR, MountainCar, Pendulum, TwoTanks)
}


def make(plant: str, *, render_mode: RenderMode | None = None, **settings: Any) -> GymnasiumEnvironment:
    """Return a plant by the name of its class as a Gymnasium environment; settings are its attributes."""
    return GymnasiumEnvironment(_PLANTS[plant](**settings), render_mode=render_mode)


# Id → plant, settings, and the length of an episode: that of the paper's evaluations or data, if any.
_IDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "nopg/Pendulum-v0": ("Pendulum", {}, 500),
    "nopg/PendulumUpright-v0": ("Pendulum", {"start": "upright"}, 500),
    "nopg/LQR-v0": ("LQR", {}, 30),
    "nopg/CartPole-v0": ("CartPole", {"rate": 50.0}, 10_000),
    "nopg/CartPole500Hz-v0": ("CartPole", {"rate": 500.0}, 10_000),
    "nopg/MountainCar-v0": ("MountainCar", {}, 500),
    "nopg/TwoTanks-v0": ("TwoTanks", {}, 60),
}


def register() -> None:
    """Register the plants with Gymnasium as `nopg/…-v0`; a second call changes nothing.

    Example:
        >>> register()
        >>> env = gymnasium.make("nopg/MountainCar-v0")
        >>> env.spec.max_episode_steps
        500
    """
    for name, (plant, settings, steps) in _IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                f"{__name__}:make",
                max_episode_steps=steps,
                kwargs={"plant": plant, **settings},
            )
