"""The Quanser cart with a pole to balance, from the voltage of its motor to the fall."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

import torch

from nopg.envs._environment import Environment
from nopg.errors import ArgumentError

__all__ = ["LONG_POLE", "SHORT_POLE", "CartPole", "CartPoleParameters", "Pole", "balancing_feedback"]


def _check_numbers(record: object, *, positive: tuple[str, ...], non_negative: tuple[str, ...]) -> None:
    for name in (*positive, *non_negative):
        value = getattr(record, name)
        if not (math.isfinite(value) and value >= 0) or (name in positive and value == 0):
            least = "positive" if name in positive else "at least 0"
            raise ArgumentError(f"{name} must be {least} and finite, got {value}; try the default")


@dataclass(frozen=True, slots=True)
class Pole:
    """A uniform rod and the feedback that balances it.

    Attributes:
        mass: m_p in kg, positive.
        length: l, from the pivot to the centre of mass, in m, positive; the rod is about twice as long.
        damping: B_p, viscous friction of the pivot in N m s/rad.
        feedback: Acceleration in m/s² asked for per unit of (position, angle, velocity, angular_velocity).
    """

    mass: float
    length: float
    damping: float
    feedback: tuple[float, float, float, float]

    def __post_init__(self) -> None:
        _check_numbers(self, positive=("mass", "length"), non_negative=("damping",))

    @property
    def inertia(self) -> float:
        """J_p = m_p l²/3, of the uniform rod about its centre, in kg m²."""
        return self.length**2 * self.mass / 3


SHORT_POLE = Pole(mass=0.127, length=0.3365 / 2, damping=0.0024, feedback=(41.0, -200.0, 55.0, -16.0))
"""The rod of 33.65 cm in the public simulator of the cart, with its mass in the middle."""

LONG_POLE = Pole(mass=0.230, length=0.3302, damping=0.0024, feedback=(40.0, -180.0, 38.0, -33.0))
"""Quanser's long rod of 64.13 cm, with its own centre of mass; the public simulator takes 0.641/2.

The gains are ours: the linear-quadratic regulator of the pole on a cart whose acceleration is the input,
without friction and linear about upright, with weights 1600, 10⁴, 100, 100 on the state and 1 on the input,
rounded.
"""


@dataclass(frozen=True, slots=True)
class CartPoleParameters:
    """The constants of the cart, its motor and its track, and the limits of the task.

    The constants are those of the public simulator of this cart. The limits are the paper's: an episode ends
    at 3°. `public_simulator` gives the simulator's own, wider ones.

    Attributes:
        pole: The rod on the cart.
        rate: Actions per second, in Hz, positive; 50 and 500 are usual.
        substeps: How many Euler steps to integrate between two actions, at least 1.
        gravity: g in m/s².
        cart_mass: m_c in kg, positive.
        cart_damping: B_eq, viscous friction of the cart in N s/m.
        gear_ratio: K_g, positive.
        rotor_inertia: J_m, of the motor's rotor in kg m².
        pinion_radius: r_mp in m, positive.
        resistance: R_m, of the armature in Ω, positive.
        torque_constant: K_t in N m/A, positive.
        back_emf_constant: K_m in V s/rad.
        corrected: Whether the pole's centrifugal force has its true sign; False is the public simulator's.
        max_voltage: Bound on the motor's voltage in V, positive; the paper's policies stay within 5.
        track_limit: Half the length of the track in m, positive.
        position_limit: Farther than this from the middle the episode ends, in m, positive, on the track.
        angle_limit: Farther than this from upright the episode ends, in rad, positive.
        start_angle: Episodes start at most this far from upright, in rad, within angle_limit.

    Example:
        >>> CartPoleParameters.public_simulator().angle_limit
        0.25
        >>> round(CartPoleParameters().moving_mass, 5)
        0.50313
    """

    pole: Pole = SHORT_POLE
    rate: float = 50.0
    substeps: int = 1
    gravity: float = 9.81
    cart_mass: float = 0.37
    cart_damping: float = 5.4
    gear_ratio: float = 3.71
    rotor_inertia: float = 3.9e-7
    pinion_radius: float = 6.35e-3
    resistance: float = 2.6
    torque_constant: float = 0.00767
    back_emf_constant: float = 0.00767
    corrected: bool = True
    max_voltage: float = 24.0
    track_limit: float = 0.407
    position_limit: float = 0.307
    angle_limit: float = math.radians(3.0)
    start_angle: float = math.radians(1.5)

    def __post_init__(self) -> None:
        _check_numbers(
            self,
            positive=(
                *("rate", "cart_mass", "gear_ratio", "pinion_radius", "resistance", "torque_constant"),
                *("max_voltage", "track_limit", "position_limit", "angle_limit"),
            ),
            non_negative=("gravity", "cart_damping", "rotor_inertia", "back_emf_constant", "start_angle"),
        )
        if self.substeps < 1:
            raise ArgumentError(f"substeps must be at least 1, got {self.substeps}; try 1")
        if self.position_limit > self.track_limit:
            raise ArgumentError(
                f"position_limit {self.position_limit} is beyond the track's {self.track_limit}"
            )
        if self.start_angle >= self.angle_limit:
            raise ArgumentError(
                f"start_angle is {self.start_angle:.4g} rad, where the episode would already be over; "
                f"stay below angle_limit, {self.angle_limit:.4g} rad"
            )

    @classmethod
    def public_simulator(cls, *, pole: Pole = SHORT_POLE, rate: float = 500.0) -> "CartPoleParameters":
        """Return the public simulator's settings: start within .1 rad, end at .25 rad, 500 Hz, its sign."""
        return cls(pole=pole, rate=rate, angle_limit=0.25, start_angle=0.1, corrected=False)

    @property
    def moving_mass(self) -> float:
        """J_eq = m_c + K_g² J_m / r_mp², the cart and what its motor turns, in kg."""
        return self.cart_mass + self.gear_ratio**2 * self.rotor_inertia / self.pinion_radius**2

    @property
    def force_per_volt(self) -> float:
        """K_g K_t / (R_m r_mp), in N/V."""
        return self.gear_ratio * self.torque_constant / (self.resistance * self.pinion_radius)

    @property
    def back_emf(self) -> float:
        """K_g K_m / r_mp, the volts that the motor loses per m/s of the cart."""
        return self.gear_ratio * self.back_emf_constant / self.pinion_radius


@final
@dataclass(frozen=True, slots=True)
class CartPole(Environment):
    """Keep a pole upright by driving the cart under it.

    ## Description

    A cart on a track carries a pole that turns freely; a motor with a rack and pinion drives it. The voltage
    V pulls with F = K_g K_t/(R_m r_mp)·(V − K_g K_m/r_mp·velocity), and with α the angle from upright

        (m_p + J_eq)·ẍ − m_p l cos α·α̈      = F − B_eq·ẋ − m_p l sin α·α̇²
        −m_p l cos α·ẍ + (J_p + m_p l²)·α̈   = −B_p·α̇ + m_p l g sin α

    Quanser and the public simulator write θ = α + π. One semi-implicit Euler step per action: velocities
    first, then the positions with the new ones. That is coarse at 50 Hz; `substeps=10` integrates at the
    500 Hz of the public simulator. Balancing works either way.

    In the public simulator the last term of the first equation has the other sign: without motor and friction
    its pole does not keep the energy. `corrected=False` gives that. Within the box below the term stays near
    0.01 N (0.04 N with the long pole), against 1.7 N per volt: there the choice hardly matters.

    ## Action Space

    One voltage; what is asked beyond the bounds is clipped to them.

    | Num | Action    | Min | Max |
    |-----|-----------|-----|-----|
    | 0   | `voltage` | −24 | 24  |

    ## Observation Space

    The state itself. The angle is 0 upright and positive to the left (counter-clockwise); it has period 2π
    and is never wrapped. The bounds are the box that the collectors span: the limits of the task, and
    velocities that a few steps can reach.

    | Num | Observation        | Min    | Max   | Unit  |
    |-----|--------------------|--------|-------|-------|
    | 0   | `position`         | −0.307 | 0.307 | m     |
    | 1   | `angle`            | −3°    | 3°    | rad   |
    | 2   | `velocity`         | −1     | 1     | m/s   |
    | 3   | `angular_velocity` | −3     | 3     | rad/s |

    ## Rewards

    r = cos(angle) of the state *before* the step: 1 upright, so that 10⁴ steps return at most 10⁴.

    ## Starting State

    In the middle and at rest, the angle uniform within ±1.5°, inside the limit of 3°; `start_angle=0` starts
    upright. The public simulator starts within 0.1 rad (5.7°), beyond the paper's limit.

    ## Episode End

    A state is terminal when the angle leaves ±3° or the cart ±0.307 m, 10 cm before the end of the track.
    The paper evaluates for 10⁴ steps; here the length belongs to the rollout.

    ## Version History

    * v0: the constants of the public simulator of the Quanser cart, the limits of the paper.

    Attributes:
        parameters: The constants and limits.

    Example:
        >>> cart_pole = CartPole()
        >>> states = torch.tensor([[0.0, 0.02, 0.0, 0.0]], dtype=torch.float64)
        >>> voltages = balancing_feedback(cart_pole)(states)
        >>> round(voltages.item(), 4)
        -1.1677
        >>> [round(number, 4) for number in cart_pole.step(states, voltages)[0].tolist()]
        [-0.0015, 0.0137, -0.0745, -0.3147]
    """

    parameters: CartPoleParameters = field(default_factory=CartPoleParameters)

    state_names = ("position", "angle", "velocity", "angular_velocity")
    action_names = ("voltage",)
    angles = MappingProxyType({"angle": 2 * math.pi})

    @property
    def state_low(self) -> torch.Tensor:
        """The box's lower corner: the limits of the task, and velocities of −1 m/s and −3 rad/s."""
        return -self.state_high

    @property
    def state_high(self) -> torch.Tensor:
        """The box's upper corner: the limits of the task, and velocities of 1 m/s and 3 rad/s."""
        p = self.parameters
        return torch.tensor([p.position_limit, p.angle_limit, 1.0, 3.0], dtype=torch.float64)

    @property
    def action_low(self) -> torch.Tensor:
        """The strongest pull to the left, −max_voltage."""
        return -self.action_high

    @property
    def action_high(self) -> torch.Tensor:
        """The strongest pull to the right, max_voltage."""
        return torch.tensor([self.parameters.max_voltage], dtype=torch.float64)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw resting states (num_states, 4) near upright; needs a generator unless start_angle is 0."""
        if num_states < 1:
            raise ArgumentError(f"num_states must be at least 1, got {num_states}")
        states = torch.zeros(num_states, 4, dtype=torch.float64)
        if self.parameters.start_angle == 0:
            return states

        if rng is None:
            raise ArgumentError("the initial angle is drawn, got no generator; pass rng or seed")
        draws = torch.rand(num_states, dtype=torch.float64, generator=rng)
        states[:, 1] = self.parameters.start_angle * (2 * draws - 1)
        return states

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 4) when the next action is due."""
        dt = 1 / (self.parameters.rate * self.parameters.substeps)
        position, angle, velocity, spin = states.unbind(-1)
        (voltage,) = self.applied(actions).unbind(-1)

        for _ in range(self.parameters.substeps):
            acceleration, angular = self._accelerations(angle, velocity, spin, voltage)
            velocity, spin = velocity + dt * acceleration, spin + dt * angular
            position, angle = position + dt * velocity, angle + dt * spin

        return torch.stack([position, angle, velocity, spin], dim=-1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,), the cosine of the angle before the step."""
        del actions, next_states  # part of the interface; this task rewards the state it leaves
        return torch.cos(states[..., 1])

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Tell, as booleans (m,), where the pole leans too far or the cart is near the end of its track."""
        p = self.parameters
        return (next_states[..., 0].abs() > p.position_limit) | (next_states[..., 1].abs() > p.angle_limit)

    def _accelerations(
        self, angle: torch.Tensor, velocity: torch.Tensor, spin: torch.Tensor, voltage: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Solve the two equations of motion for the accelerations of cart and pole, each (m,)."""
        p = self.parameters
        moment = p.pole.mass * p.pole.length  # m_p l
        force = p.force_per_volt * (voltage - p.back_emf * velocity)

        cart, pole = p.pole.mass + p.moving_mass, p.pole.inertia + moment * p.pole.length
        coupling = -moment * torch.cos(angle)
        centrifugal = moment * torch.sin(angle) * spin**2
        push = force - p.cart_damping * velocity + (-centrifugal if p.corrected else centrifugal)
        tip = moment * p.gravity * torch.sin(angle) - p.pole.damping * spin

        determinant = cart * pole - coupling**2
        return (pole * push - coupling * tip) / determinant, (cart * tip - coupling * push) / determinant


def balancing_feedback(environment: CartPole) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a controller that balances the pole, from states (m, 4) to voltages (m, 1).

    The pole's feedback asks for an acceleration of the cart; the voltage gives it that force and makes up
    for the motor's back-EMF. From every start it keeps the pole up for good: the best reachable return.
    """
    p = environment.parameters
    gains = torch.tensor(p.pole.feedback, dtype=torch.float64)

    def voltages(states: torch.Tensor) -> torch.Tensor:
        volts = p.moving_mass / p.force_per_volt * (states @ gains) + p.back_emf * states[:, 2]
        return volts[:, None]

    return voltages
