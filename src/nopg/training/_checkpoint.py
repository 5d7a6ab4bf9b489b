"""Checkpoints of a training: what the next update depends on, written by all ranks together."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nopg._ranks import ALONE, Ranks
from nopg.errors import ArgumentError
from nopg.policies import Policy
from nopg.training._reports import Update

__all__ = ["Checkpoints", "Progress"]

_KEPT = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training has come.

    Attributes:
        history: Every update so far.
        start: q and μ of the last update, from which the next solves start; those of this rank.
    """

    history: tuple[Update, ...]
    start: tuple[torch.Tensor, torch.Tensor] | None


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A folder of checkpoints of one training, one of them for each so many updates.

    Attributes:
        folder: Where they are; made if it is not there.
        every: Updates between two of them.
        purpose: Numbers that tell this training from another, such as its discount and its seed.
        ranks: Who writes them.
    """

    folder: Path
    every: int
    purpose: tuple[float, ...]
    ranks: Ranks = ALONE

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ArgumentError(f"checkpoint_every is {self.every}; give at least 1 update")

    @property
    def begun(self) -> bool:
        """Whether there is one to go on from."""
        return bool(self._complete())

    def save(self, policy: Policy, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Write a checkpoint under a name that only complete ones have."""
        number = progress.history[-1].number
        name = self.folder / f"update-{number:06}"
        unfinished = self.folder / f".unfinished-{number:06}"
        if self.ranks.number == 0:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
        self.ranks.wait()
        # Imported where it is used: it takes a second, a third of `import nopg`.
        from torch.distributed.checkpoint.state_dict_saver import save as save_together

        with _one_process_is_meant():
            save_together(
                self._state(policy, optimizer, progress),
                checkpoint_id=str(unfinished),
                no_dist=not self.ranks.several,
            )
        self.ranks.wait()
        if self.ranks.number == 0:
            shutil.rmtree(name, ignore_errors=True)
            unfinished.rename(name)
            for old in self._complete()[:-_KEPT]:
                shutil.rmtree(old)
        self.ranks.wait()

    def load(self, policy: Policy, optimizer: torch.optim.Optimizer, num_nodes: int) -> Progress | None:
        """Bring policy and optimizer to the last checkpoint and return it, or None if there is none.

        Args:
            policy: Changed in place.
            optimizer: Changed in place.
            num_nodes: n of this rank.
        """
        complete = self._complete()
        if not complete:
            return None
        from torch.distributed.checkpoint.state_dict_loader import load as load_together

        last, number = complete[-1], int(complete[-1].name.removeprefix("update-"))
        blank = Update(number, 0, 0.0, 0.0, 0.0, 0)
        vectors = torch.zeros(num_nodes, dtype=torch.float64)
        start = (vectors, vectors.clone()) if num_nodes else None
        state = self._state(policy, optimizer, Progress((blank,) * number, start))
        for name, parameter in policy.named_parameters():
            for moment in ("exp_avg", "exp_avg_sq"):
                state[f"optimizer.{name}.{moment}"] = torch.zeros_like(parameter)
            state[f"optimizer.{name}.step"] = torch.zeros(())
        try:
            with _one_process_is_meant():
                load_together(state, checkpoint_id=str(last), no_dist=not self.ranks.several)
        except Exception as error:
            raise ArgumentError(
                f"{last} is no checkpoint of this training ({str(error).splitlines()[0]}); "
                "give another folder, or the same data, policy and number of ranks"
            ) from error
        if state["purpose"].tolist() != list(self.purpose):
            raise ArgumentError(
                f"{last} belongs to another training: {state['purpose'].tolist()} there, "
                f"{list(self.purpose)} here; give another folder"
            )
        policy.load_state_dict({name: state[f"policy.{name}"] for name in policy.state_dict()})
        optimizer.param_groups[0]["eps"] = float(state["eps"])
        for name, parameter in policy.named_parameters():
            if parameter.requires_grad:
                optimizer.state[parameter] = {
                    key: state[f"optimizer.{name}.{key}"] for key in ("step", "exp_avg", "exp_avg_sq")
                }
        history = tuple(_update(row) for row in state["history"].tolist())
        rank = self.ranks.number
        return Progress(history, (state[f"q.{rank}"], state[f"mu.{rank}"]) if start else None)

    def _complete(self) -> list[Path]:
        return sorted(self.folder.glob("update-*"))

    def _state(self, policy: Policy, optimizer: torch.optim.Optimizer, progress: Progress) -> dict[str, Any]:
        state: dict[str, Any] = {f"policy.{name}": value for name, value in policy.state_dict().items()}
        for name, parameter in policy.named_parameters():
            for key, value in optimizer.state.get(parameter, {}).items():
                state[f"optimizer.{name}.{key}"] = value
        state["eps"] = torch.tensor(optimizer.param_groups[0]["eps"], dtype=torch.float64)
        state["purpose"] = torch.tensor(self.purpose, dtype=torch.float64)
        state["history"] = torch.tensor(
            [_numbers(update) for update in progress.history], dtype=torch.float64
        )
        if progress.start is not None:
            rank = self.ranks.number
            q, mu = progress.start
            state[f"q.{rank}"], state[f"mu.{rank}"] = q.cpu().double(), mu.cpu().double()
        return state


@contextmanager
def _one_process_is_meant() -> Iterator[None]:
    """Keep torch from warning that there is only one process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
        yield


def _numbers(update: Update) -> tuple[float, ...]:
    return (
        update.number,
        update.planned,
        update.expected_return,
        update.gradient_norm,
        update.unknown_mass,
        update.products,
    )


def _update(row: list[float]) -> Update:
    number, planned, expected_return, gradient_norm, unknown_mass, products = row
    return Update(int(number), int(planned), expected_return, gradient_norm, unknown_mass, int(products))
