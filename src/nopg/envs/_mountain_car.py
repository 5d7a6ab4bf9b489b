"""The continuous mountain car of the paper, with the dynamics of Gymnasium's `MountainCarContinuous-v0`."""

from dataclasses import dataclass
from typing import Literal, final, get_args

import torch

from nopg.envs._environment import Environment, check_initial, check_numbers
from nopg.errors import ArgumentError

Reward = Literal["step", "gymnasium"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MountainCar(Environment):
    """Drive a car out of a valley with an engine too weak for the slope.

    ## Description

    A car rolls on the road sin(3·position) and accelerates either way. The engine cannot climb the right hill
    from rest: the car must first back up the left one. In each step the velocity changes by
    0.0015·throttle − 0.0025·cos(3·position), then the position by the new velocity; both are clipped to their
    bounds, and the velocity is 0 after the car hits the wall on the left. Gymnasium rounds its state to
    float32 after every step; this task keeps float64, and one step agrees to that rounding.

    ## Action Space

    One throttle, clipped to its bounds.

    | Num | Action     | Min  | Max |
    |-----|------------|------|-----|
    | 0   | `throttle` | −1.0 | 1.0 |

    ## Observation Space

    The state itself; the dynamics keep it within its bounds.

    | Num | Observation | Min   | Max  |
    |-----|-------------|-------|------|
    | 0   | `position`  | −1.2  | 0.6  |
    | 1   | `velocity`  | −0.07 | 0.07 |

    ## Rewards

    `rewards="step"` is the paper's: −1 for every step, the last one included. `rewards="gymnasium"` is 100 at
    the goal minus 0.1·throttle² in every step, with the clipped throttle (Gymnasium uses the requested one).

    ## Starting State

    At rest, with the position uniform in [−0.6, −0.4], around the bottom of the valley.

    ## Episode End

    The goal is terminal: position at least 0.45 with a velocity of at least 0. The paper's demonstrations
    are truncated after 500 steps and Gymnasium's episodes after 999.

    ## Version History

    * v0: the dynamics of Gymnasium's `MountainCarContinuous-v0`, rewards −1 per step.

    Attributes:
        power: Change of velocity per step at full throttle, positive.
        gravity: Change of velocity per step on the steepest slope, positive.
        min_position: Position of the wall on the left.
        max_position: Right end of the road, more than min_position.
        max_speed: Bound on the velocity, in positions per step, positive.
        goal_position: Smallest position of the goal, on the road.
        goal_velocity: Smallest velocity at the goal.
        rewards: The paper's rewards or Gymnasium's.

    Example:
        >>> car = MountainCar()
        >>> states = torch.tensor([[0.44, 0.05]], dtype=torch.float64)
        >>> next_states = car.step(states, torch.ones(1, 1, dtype=torch.float64))
        >>> [round(number, 4) for number in next_states[0].tolist()]
        [0.4909, 0.0509]
        >>> car.terminal(next_states).tolist()
        [True]
    """

    power: float = 0.0015
    gravity: float = 0.0025
    min_position: float = -1.2
    max_position: float = 0.6
    max_speed: float = 0.07
    goal_position: float = 0.45
    goal_velocity: float = 0.0
    rewards: Reward = "step"

    state_names = ("position", "velocity")
    action_names = ("throttle",)

    def __post_init__(self) -> None:
        check_numbers(self, positive=("power", "gravity", "max_speed"), finite=("goal_velocity",))
        if not self.min_position < self.goal_position <= self.max_position:
            raise ArgumentError(
                f"goal_position must lie on the road, got {self.goal_position} outside "
                f"({self.min_position}, {self.max_position}]; try 0.45"
            )
        if self.rewards not in get_args(Reward):
            raise ArgumentError(f"rewards must be one of {', '.join(get_args(Reward))}; got {self.rewards!r}")

    @property
    def state_low(self) -> torch.Tensor:
        """The lower bounds, (min_position, −max_speed)."""
        return torch.tensor([self.min_position, -self.max_speed], dtype=torch.float64)

    @property
    def state_high(self) -> torch.Tensor:
        """The upper bounds, (max_position, max_speed)."""
        return torch.tensor([self.max_position, self.max_speed], dtype=torch.float64)

    @property
    def action_high(self) -> torch.Tensor:
        """Full throttle to the right, 1."""
        return torch.ones(1, dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return states at rest (num_states, 2) around the bottom of the valley; needs a generator."""
        check_initial(num_states, rng, random=True)
        position = -0.6 + 0.2 * torch.rand(num_states, dtype=torch.float64, generator=rng)
        return torch.stack([position, torch.zeros_like(position)], dim=-1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 2) one step later: velocity first, then the position with the new one."""
        position, velocity = states.unbind(-1)
        (throttle,) = self.applied(actions).unbind(-1)

        velocity = velocity + (throttle * self.power - self.gravity * torch.cos(3 * position))
        velocity = velocity.clamp(-self.max_speed, self.max_speed)
        position = (position + velocity).clamp(self.min_position, self.max_position)

        hits_wall = (position == self.min_position) & (velocity < 0)
        return torch.stack([position, torch.where(hits_wall, 0.0, velocity)], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,): −1 each, or Gymnasium's."""
        if self.rewards == "step":
            return -torch.ones(states.shape[:-1], dtype=torch.float64)
        (throttle,) = self.applied(actions).unbind(-1)
        return 100.0 * self.terminal(next_states) - 0.1 * throttle**2

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,): which states have reached the goal."""
        position, velocity = next_states.unbind(-1)
        return (position >= self.goal_position) & (velocity >= self.goal_velocity)
