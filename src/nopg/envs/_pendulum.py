"""The under-powered pendulum of the paper, equal to Gymnasium's `Pendulum-v1` step by step."""

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, final, get_args

import torch

from nopg.envs._environment import Environment, check_initial, check_numbers
from nopg.errors import ArgumentError

Start = Literal["hanging", "upright", "random"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pendulum(Environment):
    """Swing a rod up with a motor too weak to lift it, and keep it up.

    ## Description

    A uniform rod turns in a vertical plane about one end, where a motor applies a torque. The motor cannot
    raise the hanging rod directly; it must swing it back and forth first. The angular acceleration is
    3g/(2l)·sin(angle) + 3/(ml²)·torque, integrated by one semi-implicit Euler step.

    ## Action Space

    One torque, clipped to its bounds.

    | Num | Action   | Min  | Max |
    |-----|----------|------|-----|
    | 0   | `torque` | −2.0 | 2.0 |

    ## Observation Space

    The state itself. The angle is 0 upright and ±π hanging; its period is 2π, and it is never wrapped, so it
    counts turns. The bounds are the box that the collectors sample; the dynamics bound the velocity only.

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

    No state is terminal. Gymnasium truncates after 200 steps, the paper's evaluations after 500.

    ## Version History

    * v0: the dynamics and rewards of Gymnasium's `Pendulum-v1`.

    Attributes:
        gravity: Acceleration of gravity in m/s².
        mass: Mass of the rod in kg, positive.
        length: Length of the rod in m, positive.
        time_step: Seconds between two actions, positive.
        max_speed: Bound on the angular velocity in rad/s, positive.
        max_torque: Bound on the torque in N m, positive.
        start: Initial state of an episode.

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

    gravity: float = 10.0
    mass: float = 1.0
    length: float = 1.0
    time_step: float = 0.05
    max_speed: float = 8.0
    max_torque: float = 2.0
    start: Start = "hanging"

    state_names = ("angle", "velocity")
    action_names = ("torque",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    def __post_init__(self) -> None:
        positive = ("mass", "length", "time_step", "max_speed", "max_torque")
        check_numbers(self, positive=positive, finite=("gravity",))
        if self.start not in get_args(Start):
            raise ArgumentError(f"start must be one of {', '.join(get_args(Start))}; got {self.start!r}")

    @property
    def state_high(self) -> torch.Tensor:
        """The upper corner of the box, (π, max_speed)."""
        return torch.tensor([math.pi, self.max_speed], dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """The largest torque, max_torque; positive is counter-clockwise."""
        return torch.tensor([self.max_torque], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return initial states (num_states, 2); `start="random"` needs a generator."""
        check_initial(num_states, rng, random=self.start == "random")
        if self.start != "random":
            angle = math.pi if self.start == "hanging" else 0.0
            return torch.tensor([[angle, 0.0]], dtype=torch.float64).repeat(num_states, 1)
        high = torch.tensor([math.pi, 1.0], dtype=torch.float64)
        return high * (2 * torch.rand(num_states, 2, dtype=torch.float64, generator=rng) - 1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 2) one time step later: velocity first, then the angle with the new one."""
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)

        inertia = self.mass * self.length**2
        acceleration = 3 * self.gravity / (2 * self.length) * torch.sin(angle) + 3 / inertia * torque
        velocity = (velocity + acceleration * self.time_step).clamp(-self.max_speed, self.max_speed)

        return torch.stack([angle + velocity * self.time_step, velocity], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped torque."""
        del next_states  # required by the interface
        angle, velocity = states.unbind(-1)
        (torque,) = self.applied(actions).unbind(-1)

        angle = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi

        return -(angle**2 + 0.1 * velocity**2 + 0.001 * torque**2)
