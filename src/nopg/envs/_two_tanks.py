"""Two water tanks in series, with level control by a pump."""

import math
from dataclasses import dataclass
from typing import final

import torch

from nopg.envs._environment import Environment, check_initial, check_positive, corner
from nopg.errors import ArgumentError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTanks(Environment):
    """Bring the lower of two tanks to its set point with a pump that fills the upper one.

    A pump fills the upper tank, which drains through a hole into the lower tank, which drains through a hole
    into the sump. By Torricelli's law the flow through a hole of cross-section a at level h is a·√(2gh):

        A_u·ḣ_u = k·V − a_u·√(2g·h_u)
        A_l·ḣ_l = a_u·√(2g·h_u) − a_l·√(2g·h_l)

    A full tank overflows and stays full. The voltage is held for 10 s, integrated by four Runge-Kutta steps.
    Tanks and pump are the left column of the quadruple-tank process (Johansson 2000, IEEE Transactions on
    Control Systems Technology 8(3), 456-465); the limits and the costs are ours.

    - State: the levels `upper` and `lower`, 0 to 20 cm, and the `set_point` of the lower one, which is
      constant in an episode.
    - Action: `voltage`, clipped to 0 to 10 V. 3 V hold about 10 cm.
    - Reward: −((lower − set_point)² + 0.01·voltage²), with the state *before* the step and the clipped
      voltage.
    - Start: at rest at a random level in the range of set points, with a new set point.
    - End: no state is terminal.

    Attributes:
        upper_area: A_u, cross-section of the upper tank in cm², positive.
        lower_area: A_l, cross-section of the lower tank in cm², positive.
        upper_outlet: a_u, cross-section of the upper tank's hole in cm², positive.
        lower_outlet: a_l, cross-section of the lower tank's hole in cm², positive.
        pump_gain: k, flow per volt in cm³/(V s), positive.
        set_points: The lowest and the highest set point of the lower tank in cm, which the pump can hold.

    Example:
        >>> state, voltage = torch.tensor([[10.0, 10.0, 12.0]]).double(), torch.tensor([[5.0]]).double()
        >>> [round(number, 3) for number in TwoTanks().step(state, voltage)[0].tolist()]
        [12.234, 10.185, 12.0]
    """

    upper_area: float = 28.0
    lower_area: float = 28.0
    upper_outlet: float = 0.071
    lower_outlet: float = 0.071
    pump_gain: float = 3.35
    set_points: tuple[float, float] = (6.0, 14.0)

    gravity, max_level, max_voltage, effort = 981.0, 20.0, 10.0, 0.01  # cm/s², cm, V, cm² per V²
    time_step, substeps = 10.0, 4
    state_names = ("upper", "lower", "set_point")
    action_names = ("voltage",)
    action_low, action_high = corner(0.0), corner(max_voltage)

    def __post_init__(self) -> None:
        check_positive(self, "upper_area", "lower_area", "upper_outlet", "lower_outlet", "pump_gain")
        low, high = self.set_points
        if not 0 < low < high < self.max_level:
            raise ArgumentError(
                f"set_points is {self.set_points}; give 0 < lowest < highest < {self.max_level:g}"
            )
        if self.voltage_at(high) > self.max_voltage or self.upper_level_at(high) > self.max_level:
            raise ArgumentError(
                f"the set point {high:g} cannot be held: it needs {self.voltage_at(high):.3g} V and "
                f"{self.upper_level_at(high):.3g} cm in the upper tank; lower it"
            )

    def voltage_at(self, level: float) -> float:
        """Return the voltage that holds the lower tank at a level in cm."""
        return self.lower_outlet * math.sqrt(2 * self.gravity * level) / self.pump_gain

    def upper_level_at(self, level: float) -> float:
        """Return the level of the upper tank in cm while the lower one is held at a level in cm."""
        return (self.lower_outlet / self.upper_outlet) ** 2 * level

    @property
    def state_low(self) -> torch.Tensor:
        """Both tanks empty, the lowest set point."""
        return torch.tensor([0.0, 0.0, self.set_points[0]], dtype=torch.float64)

    @property
    def state_high(self) -> torch.Tensor:
        """Both tanks full, the highest set point."""
        return torch.tensor([self.max_level, self.max_level, self.set_points[1]], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Return states (num_states, 3) at rest at a random level with a random set point."""
        check_initial(num_states, rng, random=True)
        low, high = self.set_points
        draws = low + (high - low) * torch.rand(num_states, 2, dtype=torch.float64, generator=rng)
        level, set_point = draws.unbind(-1)
        return torch.stack([self.upper_level_at(1.0) * level, level, set_point], dim=-1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 3) at the next action; the set point does not change."""
        dt = self.time_step / self.substeps
        (voltage,) = self.applied(actions).unbind(-1)
        levels = states[..., :2]
        for _ in range(self.substeps):
            k_1 = self._rates(levels, voltage)
            k_2 = self._rates(levels + dt / 2 * k_1, voltage)
            k_3 = self._rates(levels + dt / 2 * k_2, voltage)
            k_4 = self._rates(levels + dt * k_3, voltage)
            levels = (levels + dt / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)).clamp(0.0, self.max_level)
        return torch.cat([levels, states[..., 2:]], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), which depend on the state before the step and the clipped voltage."""
        del next_states  # required by the interface
        _, lower, set_point = states.unbind(-1)
        (voltage,) = self.applied(actions).unbind(-1)
        return -((lower - set_point) ** 2 + self.effort * voltage**2)

    def _rates(self, levels: torch.Tensor, voltage: torch.Tensor) -> torch.Tensor:
        """Return the derivatives of the levels (m, 2), in cm/s."""
        # An intermediate Runge-Kutta state may lie below empty or above full.
        upper, lower = torch.sqrt(2 * self.gravity * levels.clamp(0.0, self.max_level)).unbind(-1)
        into_upper = self.pump_gain * voltage - self.upper_outlet * upper
        into_lower = self.upper_outlet * upper - self.lower_outlet * lower
        return torch.stack([into_upper / self.upper_area, into_lower / self.lower_area], dim=-1)
