"""Learn a level controller from logs of a PI, and compare both by the data and on the plant.

Each trial makes another log of fifty changes of set point, as `make_two_tanks_log.py` does, trains on it,
predicts what the learned controller and the PI's average over the log will earn, and runs the learned
controller and the PI from the starts of the log.

    python -m examples.two_tanks --trials 3 --step 1.0
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch

import nopg
from examples.make_two_tanks_log import RUNS, STEP, STEPS, make_log
from nopg.envs import ControlLaw, TwoTanks, level_controller, simulate

DISCOUNT = 0.95


def read_log(text: str) -> nopg.Transitions:
    """Return the transitions of a log."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.csv"
        file.write_text(text, encoding="utf-8")
        return nopg.read_csv(
            file,
            states=["upper", "lower", "set_point"],
            actions=["voltage"],
            reward="reward",
            episode="run",
            time="time",
        )


def average_behaviour(data: nopg.Transitions) -> ControlLaw:
    """Return the straight line through the logged actions."""
    ones = torch.ones(len(data), 1, dtype=torch.float64)
    gains = torch.linalg.lstsq(torch.cat([data.states, ones], dim=1), data.actions).solution
    return lambda states: states @ gains[:-1] + gains[-1]


def run_trial(seed: int, *, runs: int, step: float, updates: int) -> str:
    """Return a line on one log."""
    data = read_log(make_log(runs, STEPS, seed, step))
    started = time.process_time()
    result = nopg.optimize(data, DISCOUNT, config=nopg.TrainingConfig(updates=updates))
    seconds = time.process_time() - started
    pi = result.evaluator.assess(average_behaviour(data)).expected_return

    plant = TwoTanks()
    laws: dict[str, ControlLaw] = {"learned": result.policy, "PI": level_controller(plant)}
    rollouts = {
        name: simulate(plant, law, steps=200, initial_states=data.starts) for name, law in laws.items()
    }
    true = {name: float(run.discounted_returns(DISCOUNT).mean()) for name, run in rollouts.items()}
    offset = {
        name: float((run.states[-1, :, 1] - run.states[-1, :, 2]).abs().mean())
        for name, run in rollouts.items()
    }
    return (
        f"trial {seed}: learned {true['learned']:.1f} (predicted {result.expected_return:.1f}), "
        f"PI {true['PI']:.1f} (its average predicted {pi:.1f}); unknown mass {result.unknown_mass:.2%}; "
        f"offset {10 * offset['learned']:.1f} mm; {len(data)} rows, {seconds:.0f} CPU s"
    )


def main() -> None:
    """Run the trials and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=3, help="how many logs, from seed 0")
    parser.add_argument("--runs", type=int, default=RUNS, help="changes of set point in a log")
    parser.add_argument("--step", type=float, default=STEP, help="the largest step on the voltage, in V")
    parser.add_argument("--updates", type=int, default=60)
    options = parser.parse_args()
    for seed in range(options.trials):
        line = run_trial(seed, runs=options.runs, step=options.step, updates=options.updates)
        print(line.replace("-", "−"), flush=True)


if __name__ == "__main__":
    main()
