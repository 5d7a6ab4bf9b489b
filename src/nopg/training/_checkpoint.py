"""Checkpoints: the state of a training, and the folder where it is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from nopg._nesting import nested, part_of
from nopg._provenance import fingerprint
from nopg.bellman._estimate import GradientEstimator, Resumable
from nopg.errors import ArgumentError, DataError
from nopg.policies import Policy
from nopg.training._checkpoint_files import ADVICE, State, complete_folders, read_folder, write_folder
from nopg.training._config import CheckpointConfig
from nopg.training._fingerprint import PARAMETERS, RunFingerprint, differences
from nopg.training._folder_lock import locked
from nopg.training._reports import Update

__all__ = ["Checkpoint", "Checkpoints", "Parts", "ResumeState", "open_checkpoints"]

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


@dataclass(frozen=True, slots=True)
class ResumeState:
    """What is decided before the first update and kept by a training that is resumed.

    Attributes:
        most_candidates: The K that memory afforded with the paper's model; None if it was not asked.
        start: Name and parameters of the start that the ascent began with; None with the paper's model.
    """

    most_candidates: int | None = None
    start: tuple[str, Mapping[str, torch.Tensor]] | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a training that change with every update."""

    policy: Policy
    optimizer: torch.optim.Optimizer
    estimator: GradientEstimator


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A training after some updates: all that its future depends on.

    Attributes:
        history: Every update so far.
        finished: Whether the training had come to its end.
        eps: Adam's ε.
        policy: Parameters and buffers of the policy.
        parameters: Hash of its parameters.
        moments: Adam's, by parameter.
        estimator: State of the estimator.
        resume_state: Before the first update.
    """

    history: tuple[Update, ...]
    finished: bool
    eps: float
    policy: Mapping[str, torch.Tensor]
    moments: Mapping[str, torch.Tensor]
    estimator: Mapping[str, torch.Tensor]
    resume_state: ResumeState
    parameters: str | None = None

    @classmethod
    def of(
        cls, parts: Parts, history: tuple[Update, ...], *, finished: bool, resume_state: ResumeState
    ) -> Checkpoint:
        """Return the state of a training; nothing of it changes."""
        policy, optimizer, estimator = parts.policy, parts.optimizer, parts.estimator
        moments = {
            f"{name}.{moment}": optimizer.state[parameter][moment]
            for name, parameter in policy.named_parameters()
            if parameter in optimizer.state
            for moment in _MOMENTS
        }
        return cls(
            history=history,
            finished=finished,
            eps=optimizer.param_groups[0]["eps"],
            policy=policy.state_dict(),
            moments=moments,
            estimator=nested(estimator=estimator.state_dict() if isinstance(estimator, Resumable) else {}),
            resume_state=resume_state,
            parameters=fingerprint(policy.parameters()),
        )

    def restore(self, parts: Parts) -> None:
        """Load the state into the parts of a training."""
        policy, optimizer, estimator = parts.policy, parts.optimizer, parts.estimator
        _check_alike("the policy", self.policy, policy.state_dict())
        if self.resume_state.start:
            _check_alike("the start", self.resume_state.start[1], policy.state_dict())
        policy.load_state_dict(self.policy)
        optimizer.param_groups[0]["eps"] = self.eps
        for name, parameter in policy.named_parameters():
            moments = part_of(name, self.moments)
            if moments:
                _check_alike(
                    f"Adam's state of {name}",
                    moments,
                    {"step": torch.tensor(0.0), "exp_avg": parameter, "exp_avg_sq": parameter},
                )
                optimizer.state[parameter] = moments
        if isinstance(estimator, Resumable):
            estimator.load_state_dict(part_of("estimator", self.estimator))


def _check_alike(what: str, there: Mapping[str, torch.Tensor], here: Mapping[str, torch.Tensor]) -> None:
    """Refuse tensors that have other names, shapes or types than those they are to replace."""
    for name in sorted({*there, *here}):
        shapes = [
            f"{tuple(side[name].shape)} {side[name].dtype}" if name in side else "absent"
            for side in (there, here)
        ]
        if shapes[0] != shapes[1]:
            raise DataError(f"{what} has another {name}: {shapes[0]} there, {shapes[1]} here")


class Checkpoints:
    """The folder of one training's checkpoints, and when to write one.

    Args:
        config: Where they are, in a folder that is made if need be, and how often one is written.
        fingerprint: What tells this training from another.

    Attributes:
        last: The one to go on from, until `restore`; None at the beginning of a training.
        resume_state: To be written with all that follow.
    """

    def __init__(self, config: CheckpointConfig, fingerprint: RunFingerprint) -> None:
        self.folder, self.fingerprint, self.config = Path(config.folder), fingerprint, config
        self._written = time.monotonic()
        _make_folder(config)
        self.last = self._last()
        self.resume_state = self.last.resume_state if self.last else ResumeState()

    def restore(self, parts: Parts) -> Checkpoint | None:
        """Bring a training to the last checkpoint, and return and let go of it; None if there is none."""
        last, self.last = self.last, None
        if last is None:
            return None
        try:
            last.restore(parts)
        except (DataError, KeyError, RuntimeError, TypeError, ValueError) as error:
            path = self._path(len(last.history))
            raise DataError(f"{path} does not fit this training: {error}; {ADVICE}") from None
        return last

    def write(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint under a name that only complete ones have."""
        start = checkpoint.resume_state.start
        tensors = nested(
            policy=checkpoint.policy,
            adam=checkpoint.moments,
            start=start[1] if start else {},
            memory=checkpoint.estimator,
        )
        state: State = {
            "fingerprint": self.fingerprint,
            "finished": checkpoint.finished,
            "eps": checkpoint.eps,
            "most_candidates": checkpoint.resume_state.most_candidates,
            "start": None if start is None else start[0],
            "parameters": checkpoint.parameters,
        }
        write_folder(self._path(len(checkpoint.history)), state, checkpoint.history, tensors)
        self._written = time.monotonic()

    def is_due(self, number: int) -> bool:
        """Return whether to write after this update."""
        minutes = self.config.minutes
        late = minutes is not None and time.monotonic() - self._written >= 60.0 * minutes
        return late or number % self.config.every == 0

    def _last(self) -> Checkpoint | None:
        """Read the last checkpoint; refuse one of another training."""
        complete = complete_folders(self.folder)
        if not complete:
            return None
        path = complete[max(complete)]
        state, history, tensors = read_folder(path)
        if state["parameters"] == self.fingerprint[PARAMETERS]:  # a policy as its training has left it
            self.fingerprint = {**self.fingerprint, PARAMETERS: state["fingerprint"].get(PARAMETERS)}
        if differing := differences(state["fingerprint"], self.fingerprint):
            raise ArgumentError(
                f"{path} belongs to another training: {'; '.join(differing)}. Make the same call again, "
                "or give another folder"
            )
        trained = {name: part for name, part in tensors.items() if not name.startswith("memory")}
        wrong = [name for name, part in trained.items() if not bool(part.isfinite().all())]
        if wrong or not state["eps"] > 0:
            what = f"{wrong[0]} holds what is no finite number" if wrong else f"Adam's ε is {state['eps']}"
            raise DataError(f"{path} is no checkpoint that can be used: {what}; {ADVICE}")
        start = state["start"]
        return Checkpoint(
            history=history,
            finished=state["finished"],
            eps=state["eps"],
            policy=part_of("policy", tensors),
            moments=part_of("adam", tensors),
            estimator=part_of("memory", tensors),
            resume_state=ResumeState(
                state["most_candidates"],
                None if start is None else (start, part_of("start", tensors)),
            ),
        )

    def _path(self, number: int) -> Path:
        return self.folder / f"update-{number:06}"


def _make_folder(config: CheckpointConfig) -> None:
    try:
        Path(config.folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"there can be no checkpoints in {str(config.folder)!r}: {error}; give another folder"
        ) from None


@contextmanager
def open_checkpoints(
    config: CheckpointConfig | None, run: Callable[[], RunFingerprint]
) -> Iterator[Checkpoints | None]:
    """Give the checkpoints that a user asked for, if any, in a folder that no other training uses meanwhile.

    Args:
        config: Where they are.
        run: Returns the fingerprint of the training; called only if needed.
    """
    if config is None:
        yield None
        return
    folder = str(config.folder)
    if config.resume and not complete_folders(Path(folder)):
        raise ArgumentError(
            f"there is no checkpoint in {folder!r} to resume from; checkpoint={folder!r} begins a training "
            "there"
        )
    _make_folder(config)
    with locked(Path(folder)):
        yield Checkpoints(config, run())
