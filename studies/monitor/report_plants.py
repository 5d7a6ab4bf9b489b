"""Report plants of the monitor: a reactor and four tanks of pcgym, a motor of gym-electric-motor."""

from __future__ import annotations

import importlib
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch

from nopg.envs import ControlLaw, Environment
from nopg.errors import MissingExtraError
from studies.monitor.plant import Noise, WatchedPlant, logged, with_dither


@cache
def _imported(module: str) -> Any:
    """Return a module of the `studies` extra, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], "studies") from error


def _row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


class _ProcessPlant(Environment):
    """A process whose first columns follow a model of pcgym; the others, such as set points, stay.

    pcgym's own environment builds an integrator at every step. Here its equations are integrated by
    Runge-Kutta steps for all rows at once, within the physical bounds of the states.
    """

    model: str
    constant_inputs: tuple[float, ...] = ()
    time_step: float
    num_moving: int
    substeps = 10

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, d_s) one sampling time later, within their physical bounds."""
        inputs, k, dt = self.applied(actions), self.num_moving, self.time_step / self.substeps
        low, high = self.state_low[:k], self.state_high[:k]

        def rates(moving: torch.Tensor) -> torch.Tensor:
            return self._rates(moving.clamp(low, high), inputs)

        moved = states[:, :k]
        for _ in range(self.substeps):
            k_1 = rates(moved)
            k_2 = rates(moved + dt / 2 * k_1)
            k_3 = rates(moved + dt / 2 * k_2)
            k_4 = rates(moved + dt * k_3)
            moved = moved + dt / 6 * (k_1 + 2 * k_2 + 2 * k_3 + k_4)
        return torch.cat([moved.clamp(low, high), states[:, k:]], dim=1)

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(len(next_states), dtype=torch.bool)

    def _rates(self, moving: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """Return the time derivative (m, k) of the moving columns by the model in its numpy form."""
        constant = [np.full(len(moving), value) for value in self.constant_inputs]
        model = getattr(_imported("pcgym.model_classes"), self.model)(int_method="numpy")
        rates = model(moving.T.numpy(), np.stack([*inputs.T.numpy(), *constant]))
        return torch.as_tensor(np.stack(rates, axis=1))


# The unstable steady state of the equations at a coolant of 300 K.
_CONCENTRATION, _TEMPERATURE, _COOLANT = 0.5, 350.0, 300.0


class Reactor(_ProcessPlant):
    """Hold a first-order exothermic reaction at a temperature at which it runs away by itself.

    The equations are those of Seborg, Edgar and Mellichamp as in pcgym's `cstr`: a cooling jacket at
    `coolant` K, feed at 350 K and 1 mol/l. Sampled every .1 min, the operating point has an eigenvalue of
    1.33 per step. The reward is −((T − 350)/5)² − ((c − .5)/.05)² − .01·((coolant − 300)/5)² of the state
    before the step. Episodes start within ±5 K and ±.05 mol/l of the operating point.
    """

    model = "cstr"
    constant_inputs = (350.0, 1.0)  # temperature and concentration of the feed
    state_names = ("concentration", "temperature")
    state_low, state_high = _row(0.0, 250.0), _row(1.0, 600.0)
    action_names = ("coolant",)
    action_low, action_high = _row(280.0), _row(320.0)
    time_step, num_moving = 0.1, 2

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 2) around the operating point."""
        draws = 2 * torch.rand(num_states, 2, dtype=torch.float64, generator=rng) - 1
        centre = torch.tensor([_CONCENTRATION, _TEMPERATURE], dtype=torch.float64)
        return centre + torch.tensor([0.05, 5.0], dtype=torch.float64) * draws

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        concentration = (states[:, 0] - _CONCENTRATION) / 0.05
        temperature = (states[:, 1] - _TEMPERATURE) / 5.0
        coolant = (self.applied(actions)[:, 0] - _COOLANT) / 5.0
        return -(concentration**2 + temperature**2 + 0.01 * coolant**2)


def _reactor_behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return a PI controller of the temperature with dither of 2 K on the coolant."""
    gain, integral_time, time_step = 2.5, 2.0, Reactor.time_step
    integral = torch.zeros(0, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        error = _TEMPERATURE - states[:, 1]
        integral = (
            integral if len(integral) else torch.zeros_like(error)
        ) + time_step / integral_time * error
        return (_COOLANT + gain * (error + integral))[:, None]

    return with_dither(act, plant, (2.0,), rng)


REACTOR = WatchedPlant(
    name="reactor",
    role="report",
    make=Reactor,
    discount=0.95,
    rows=1_000,
    steps=100,
    sensor="temperature",
    noise=Noise(measurement=(0.005, 0.3)),
    log=logged(_reactor_behaviour, steps=50),
)
"""20 episodes of 50 samples under a PI controller; noise of .005 mol/l and .3 K."""

# pcgym's constants: outlets in m², pump gains in m³/(V s), share of each pump that goes to its lower tank.
_OUTLETS = (0.0035, 0.0030, 0.0020, 0.0025)
_PUMPS = (0.00085, 0.00095)
_SHARE, _GRAVITY = 0.2, 9.81


class FourTanks(_ProcessPlant):
    """Bring the two lower tanks to their set points with two pumps that mostly fill the upper ones.

    The equations are those of Johansson (2000) as in pcgym's `four_tank`. Only a fifth of each pump goes
    straight to a lower tank, so the plant has a zero in the right half plane and the pairing of pumps and
    tanks is crossed. Sampled every 10 s. The reward is −(e1² + e2²)/.02² − .001·(v1² + v2²) of the state
    before the step, with e the deviations of the lower levels in m. Episodes start at rest at voltages
    uniform in [4, 6] V, with set points that other such voltages hold.
    """

    model = "four_tank"
    state_names = ("level1", "level2", "level3", "level4", "set_point1", "set_point2")
    state_low, state_high = _row(*(0.0,) * 6), _row(*(0.6,) * 6)
    action_names = ("voltage1", "voltage2")
    action_low, action_high = _row(0.1, 0.1), _row(10.0, 10.0)
    time_step, num_moving = 10.0, 4

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 6) at rest, with other set points."""
        start, goal = 4 + 2 * torch.rand(2, num_states, 2, dtype=torch.float64, generator=rng)
        return torch.cat([resting_levels(start), resting_levels(goal)[:, :2]], dim=1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        error = (states[:, 4:] - states[:, :2]) / 0.02
        return -error.square().sum(dim=1) - 0.001 * self.applied(actions).square().sum(dim=1)


def resting_levels(voltages: torch.Tensor) -> torch.Tensor:
    """Return the four levels (m, 4) in m that two voltages (m, 2) hold."""
    straight = _SHARE * voltages * torch.tensor(_PUMPS, dtype=torch.float64)
    crossed = (1 - _SHARE) * voltages * torch.tensor(_PUMPS, dtype=torch.float64)
    flows = torch.cat([straight + crossed.flip(1), crossed.flip(1)], dim=1)  # out of tanks 1 to 4
    return (flows / torch.tensor(_OUTLETS, dtype=torch.float64)).square() / (2 * _GRAVITY)


def resting_voltages(levels: torch.Tensor) -> torch.Tensor:
    """Return the voltages (m, 2) that hold the upper two of four levels (m, 4) in m."""
    upper = (
        torch.tensor(_OUTLETS[2:], dtype=torch.float64) * (2 * _GRAVITY * levels[:, 2:].clamp(min=0)).sqrt()
    )
    return upper.flip(1) / ((1 - _SHARE) * torch.tensor(_PUMPS, dtype=torch.float64))


def _tanks_behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return two crossed PI controllers with dither of .3 V; their integrals begin as at rest."""
    gain, integral_time, time_step = 15.0, 100.0, FourTanks.time_step
    integral = torch.zeros(0, 2, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        if len(integral) == 0:
            integral = resting_voltages(states[:, :4])
        error = (states[:, 4:6] - states[:, :2]).flip(1)  # pump 1 serves tank 2, pump 2 tank 1
        integral = integral + gain * time_step / integral_time * error
        return gain * error + integral

    return with_dither(act, plant, (0.3, 0.3), rng)


FOUR_TANKS = WatchedPlant(
    name="four-tanks",
    role="report",
    make=FourTanks,
    discount=0.95,
    rows=1_000,
    steps=100,
    sensor="level1",
    noise=Noise(measurement=(0.001, 0.001, 0.001, 0.001, 0.0, 0.0)),
    log=logged(_tanks_behaviour, steps=50),
)
"""20 episodes of 50 samples under two PI controllers with changing set points; noise of 1 mm."""

_SUPPLY = 60.0  # V
_FLUX = 0.165  # V s/rad
_TIME_STEP = 1e-3  # s
_LOAD = {"a": 0.5, "b": 0.02, "c": 1e-4, "j_load": 1e-4}  # N m, N m s, N m s², kg m²


class Motor(Environment):
    """Bring a motor to a set speed by the duty cycle of its converter.

    Motor, converter and load are those of gym-electric-motor's `Cont-SC-PermExDc-v0` with a load of dry
    friction, viscous friction and air drag, sampled at 1 kHz; nothing limits the current. The reward is
    −((speed − set_point)/20)² − (current/200)² of the state before the step. Episodes start at a constant
    speed in [100, 200] rad/s with a set point in the same range.
    """

    state_names = ("speed", "current", "set_point")
    action_names = ("duty",)
    state_low, state_high = _row(0.0, -400.0, 100.0), _row(350.0, 400.0, 200.0)
    action_low, action_high = _row(-1.0), _row(1.0)

    def initial(self, num_states: int, *, rng: torch.Generator | None = None) -> torch.Tensor:
        """Draw states (num_states, 3) at a constant speed, with another set point."""
        speed, goal = 100 + 100 * torch.rand(2, num_states, dtype=torch.float64, generator=rng)
        return torch.stack([speed, load_torque(speed) / _FLUX, goal], dim=1)

    def step(self, states: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Return the states (m, 3) one millisecond later; the set point stays."""
        system, solver = self._simulator
        duties, rows = self.applied(actions).numpy(), states.numpy()
        moved = np.empty((len(rows), 2))
        for i in range(len(rows)):
            solver.set_initial_value(rows[i, :2].copy(), solver.t)
            system.simulate(duties[i])
            moved[i] = solver.y
        return torch.cat([torch.as_tensor(moved), states[:, 2:]], dim=1)

    def reward(self, states: torch.Tensor, actions: torch.Tensor, next_states: torch.Tensor) -> torch.Tensor:
        """Return the rewards (m,)."""
        speed, current, goal = states.unbind(-1)
        return -(((speed - goal) / 20.0) ** 2) - (current / 200.0) ** 2

    def terminal(self, next_states: torch.Tensor) -> torch.Tensor:
        """Return booleans (m,), all false."""
        return torch.zeros(len(next_states), dtype=torch.bool)

    @cached_property
    def _simulator(self) -> tuple[Any, Any]:
        """The physical system of gym-electric-motor and its solver, which is set to a state before a step."""
        gem = _imported("gym_electric_motor")
        systems = _imported("gym_electric_motor.physical_systems")
        solver = _imported("gym_electric_motor.physical_systems.solvers").ScipyOdeSolver()
        env = gem.make(
            "Cont-SC-PermExDc-v0",
            tau=_TIME_STEP,
            ode_solver=solver,
            load=systems.PolynomialStaticLoad(load_parameter=_LOAD),
            constraints=(),
        )
        env.reset()
        return env.unwrapped.physical_system, solver


def load_torque(speed: torch.Tensor) -> torch.Tensor:
    """Return the torque in N m that the load takes at positive speeds in rad/s."""
    return _LOAD["a"] + _LOAD["b"] * speed + _LOAD["c"] * speed**2


def _motor_behaviour(plant: Environment, rng: torch.Generator) -> ControlLaw:
    """Return a PI controller of the speed with dither of .6 V; its integral begins at the back-EMF."""
    gain, integral_time = 0.03 / _SUPPLY, 0.015
    integral = torch.zeros(0, dtype=torch.float64)

    def act(states: torch.Tensor) -> torch.Tensor:
        nonlocal integral
        speed, _, goal = states.unbind(-1)
        if len(integral) == 0:
            integral = _FLUX * speed / _SUPPLY
        error = goal - speed
        integral = integral + gain * _TIME_STEP / integral_time * error
        return (gain * error + integral)[:, None]

    return with_dither(act, plant, (0.01,), rng)


MOTOR = WatchedPlant(
    name="motor",
    role="report",
    make=Motor,
    discount=0.97,
    rows=1_000,
    steps=100,
    sensor="speed",
    noise=Noise(measurement=(0.5, 2.0, 0.0)),
    log=logged(_motor_behaviour, steps=100),
)
"""Ten set-point changes of .1 s under a PI controller; noise of .5 rad/s and 2 A."""
