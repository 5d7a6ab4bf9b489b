"""The example that explains the algorithm in one file computes what `nopg.paper` computes."""

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nopg import Bandwidths
from nopg.envs import Pendulum, collect_grid
from nopg.paper import PaperModel, PaperProblem
from nopg.policies import Policy

FILE = Path(__file__).parents[2] / "examples/nopg_in_one_file.py"


class Wrapped(Policy):
    """The policy of the example as one of the library."""

    num_actions, num_action_samples = 1, 1

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def mode(self, features: torch.Tensor) -> torch.Tensor:
        actions: torch.Tensor = self.policy(features)
        return actions

    def actions(self, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return self.mode(features)[None]


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("nopg_in_one_file", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_return_and_gradient_are_those_of_the_package(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nopg.paper._model._ALL_UP_TO", 450)  # the example leaves no sample out
    theirs = example.pendulum_grid()
    data = collect_grid(Pendulum(), (15, 15, 2))
    assert np.allclose(data.next_features, theirs.s_next)
    assert np.allclose(data.rewards, theirs.r)
    policy = example.new_policy(theirs, 0)
    expected_return = example.gradient(theirs, policy)

    model = PaperModel(data, Bandwidths.from_values(theirs.h_psi, theirs.h_phi), prior_mass=theirs.beta)
    wrapped = Wrapped(policy)
    solution = PaperProblem(model, data.starts, example.GAMMA).solve(wrapped)
    assert solution.expected_return == pytest.approx(expected_return, rel=1e-10)
    for parameter, part in zip(wrapped.parameters(), solution.gradient(), strict=True):
        assert parameter.grad is not None
        assert torch.allclose(part, -parameter.grad, rtol=1e-7, atol=1e-9 * float(part.abs().max()))


def test_a_short_training_raises_the_return(example: Any) -> None:
    _, history = example.train(example.pendulum_grid(), updates=15, seed=0)
    assert history[-1] > history[0] + 1.0


def test_the_file_is_short_and_imports_no_nopg() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name.name for node in imported for name in node.names} | {
        str(node.module) for node in imported if isinstance(node, ast.ImportFrom)
    }
    assert not [name for name in names if name.startswith("nopg")]
