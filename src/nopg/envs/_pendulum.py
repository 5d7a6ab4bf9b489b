"""The under-powered pendulum of the paper, equal to Gymnasium's `Pendulum-v1` step by step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, final, get_args

import torch

from nopg.envs._environment import Environment
from nopg.errors import ArgumentError

__all__ = ["PENDULUM_GRIDS", "Pendulum", "PendulumParameters"]

PENDULUM_GRIDS: Mapping[int, tuple[int, int, int]] = MappingProxyType(
    {
        200: (10, 10, 2),
        450: (15, 15, 2),
        800: (20, 20, 2),
        1250: (25, 25, 2),
        1800: (30, 30, 2),
        3200: (40, 40, 2),
    }
)
"""The paper's uniform datasets (`tab:pendulum_uniform`): size → points per (angle, velocity, torque)."""

Start = Literal["hanging", "upright", "random"]


@dataclass(frozen=True, slots=True)
class PendulumParameters:
    """The physical constants of a pendulum; the defaults are those of `Pendulum-v1`.

    Attributes:
        gravity: Acceleration of gravity in m/s².
        mass: Mass of the rod in kg, positive.
        length: Length of the rod in m, positive.
        time_step: Seconds between two actions, positive.
        max_speed: Bound on the angular velocity in rad/s, positive.
        max_torque: Bound on the torque in N m, positive.
    """

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    time_step: float = 0.05
    max_speed: float = 8.0
    max_torque: float = 2.0

    def __post_init__(self) -> None:
        if not math.isfinite(self.gravity):
            raise ArgumentError(f"gravity must be finite, got {self.gravity}; Pendulum-v1 uses 10")
        for name in ("mass", "length", "time_step", "max_speed", "max_torque"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ArgumentError(f"{name} must be positive and finite, got {value}; try a value like 1")


@final
@dataclass(frozen=True, slots=True)
class Pendulum(Environment):
    """Swing a rod up with a motor too weak to lift it, and keep it up.

    ## Description

    A uniform rod turns in a vertical plane about one end, where a motor applies a torque. The motor cannot
    raise the hanging rod directly: it must swing back and forth to gather energy first. The angular
    acceleration is 3g/(2l)·sin(angle) + 3/(ml²)·torque, integrated by one semi-implicit Euler step.

    ## Action Space

    One torque; what is asked beyond the bounds is clipped to them.

    | Num | Action   | Min  | Max |
    |-----|----------|------|-----|
    | 0   | `torque` | −2.0 | 2.0 |

    ## Observation Space

    The state itself. The angle is 0 upright and ±π hanging; it is an angle of period 2π that is never
    wrapped, so it counts turns. The bounds are the box the collectors span; only the velocity is held to
    its bounds by the dynamics.

    | Num | Observation | Min  | Max |
    |-----|-------------|------|-----|
    | 0   | `angle`     | −π   | π   |
    | 1   | `velocity`  | −8.0 | 8.0 |

    ## Rewards

    r = −(angle² + 0.1·velocity² + 0.001·torque²), with the state *before* the step, its angle wrapped to
    [−π, π), and the clipped torque. Rewards lie between −16.28 and 0.

    ## Starting State

    `start="hanging"` is (π, 0), the paper's task; `start="upright"` is (0, 0); `start="random"` is
    Gymnasium's: the angle uniform in [−π, π] and the velocity in [−1, 1].

    ## Episode End

    No state is terminal. Gymnasium truncates after 200 steps, the paper's evaluations after 500; here the
    length belongs to the rollout.

    ## Version History

    * v0: the dynamics and rewards of Gymnasium's `Pendulum-v1`.

    Attributes:
        parameters: The physical constants.
        start: Where episodes begin.

    Example:
        >>> pendulum = Pendulum()
        >>> states = pendulum.initial(1)
        >>> torques = torch.tensor([[5.0]], dtype=torch.float64)  # clipped to 2
        >>> next_states = pendulum.step(states, torques)
        >>> [round(number, 4) for number in next_states[0].tolist()]
        [3.1566, 0.3]
        >>> round(pendulum.reward(states, torques, next_states).item(), 4)
        -9.8736
    """

    parameters: PendulumParameters = field(default_factory=PendulumParameters)
    start: Start = "hanging"

    state_names = ("angle", "velocity")
    action_names = ("torque",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    def __post_init__(self) -> None:
        if self.start not in get_args(Start):
            raise ArgumentError(f"start must be one of {', '.join(get_args(Start))}; got {self.start!r}")

    @property
    def state_low(self) -> torch.Tensor:
        """The box's lower corner, (−π, −max_speed)."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """The box's upper corner, (π, max_speed)."""
        return torch.tensor([math.pi, self.parameters.max_speed], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """The strongest torque clockwise, −max_torque."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """The strongest torque counter-clockwise, max_torque."""
        return torch.tensor([self.parameters.max_torque], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states (num_states, 2); `start="random"` needs a generator."""
        if num_states < 1:
            raise ArgumentError(f"num_states must be at least 1, got {num_states}")
        if self.start != "random":
            angle = math.pi if self.start == "hanging" else 0.0
            return torch.tensor([[angle, 0.0]], dtype=torch.float64).repeat(num_states, 1)

        if rng is None:
            raise ArgumentError("start='random' draws its initial states, got no generator; pass rng or seed")
        high = torch.tensor([math.pi, 1.0], dtype=torch.float64)
        return high * (2 * torch.rand(num_states, 2, dtype=torch.float64, generator=rng) - 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 2) one time step later: velocity first, then the angle with the new one."""
        p = self.parameters
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)

        acceleration = 3 * p.gravity / (2 * p.length) * torch.sin(angle) + 3 / (p.mass * p.length**2) * torque
        velocity = (velocity + acceleration * p.time_step).clamp(-p.max_speed, p.max_speed)

        return torch.stack([angle + velocity * p.time_step, velocity], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped torque."""
        del next_states  # part of the interface; this task rewards the state it leaves
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)

        angle = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi

        return -(angle**2 + 0.1 * velocity**2 + 0.001 * torque**2)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false: the task never ends by itself."""
        return torch.zeros(next_states.shape[:-1], dtype=torch.bool)
