"""The rotary pendulum of the planning study."""

from __future__ import annotations

import torch

from studies.plants.furuta import FURUTA, FurutaParameters, FurutaPendulum


def total_energy(plant: FurutaPendulum, states: torch.Tensor) -> torch.Tensor:
    p = plant.parameters
    _, angle, arm_speed, speed = states.unbind(dim=-1)
    turning = p.arm_inertia + p.mass * p.arm_length**2 + p.inertia * angle.sin().square()
    coupled = p.mass * p.arm_length * p.center * angle.cos() * arm_speed * speed
    height = p.mass * 9.81 * p.center * angle.cos()
    return 0.5 * turning * arm_speed.square() + 0.5 * p.inertia * speed.square() + coupled + height


def test_without_friction_and_torque_the_energy_is_kept() -> None:
    plant = FurutaPendulum(FurutaParameters(friction=(0.0, 0.0), substeps=20))
    states = torch.tensor([[0.0, 2.0, 3.0, 1.0], [0.5, 0.3, -1.0, 4.0]], dtype=torch.float64)
    before, begun = total_energy(plant, states), states
    for _ in range(25):
        states = plant.step(states, torch.zeros(2, 1, dtype=torch.float64))
    # Runge-Kutta steps of 2 ms lose some 10⁻⁸ of the energy in a second.
    assert torch.allclose(total_energy(plant, states), before, rtol=1e-5, atol=1e-7)
    assert (states - begun).abs().max() > 1


def test_a_log_passes_the_top_and_hangs() -> None:
    height = FURUTA.data(1_000, 0).states[:, 1].cos()
    assert (height > 0.9).any()
    assert (height < -0.9).any()
