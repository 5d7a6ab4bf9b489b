"""Checkpoints: one file from which an interrupted training is resumed."""

from __future__ import annotations

import hashlib
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, is_dataclass
from numbers import Integral
from pathlib import Path

import torch

from nopg._files import fingerprint, nested, part_of, write_files
from nopg.bellman._estimate import GradientEstimator, Resumable
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.models._local_model import ModelConfig
from nopg.policies import Policy
from nopg.training._adam import Adam
from nopg.training._config import CheckpointConfig, TrainingConfig
from nopg.training._reports import Update

_FORMAT = 4
_log = logging.getLogger(__name__)


class Checkpoint:
    """The file with the state of one training after some updates.

    Args:
        config: Where it is, and how often it is written.
        run: Hash of data and settings; the checkpoint of another run is refused.
        policy: The policy, if one is given: it has to begin as that of the run, or as the run has left it.

    Attributes:
        history: Updates so far.
        finished: Whether the training had come to its end.
        start: Name and parameters of the start of the ascent on the local model.
    """

    def __init__(self, config: CheckpointConfig, run: str, policy: Policy | None = None) -> None:
        self.path, self.every, self._run = Path(config.path), int(config.every), run
        self._given = None if policy is None else fingerprint(policy.parameters())
        self.history: tuple[Update, ...] = ()
        self.finished = False
        self.start: tuple[str, Mapping[str, torch.Tensor]] | None = None
        self._saved: Mapping[str, torch.Tensor] | None = None
        if self.path.exists():
            self._read()
        elif config.resume:
            raise ArgumentError(
                f"there is no checkpoint {str(self.path)!r} to resume from; checkpoint={str(self.path)!r} "
                "begins a training there"
            )

    @property
    def resumes(self) -> bool:
        """Whether a training goes on from what was read."""
        return self._saved is not None

    def _read(self) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                state = json.loads(file.metadata()["state"])
                saved = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']!r} instead of {_FORMAT}")
            history = tuple(Update(*row) for row in state["history"])
            finished = bool(state["finished"])
            run, name, given, left = (state[name] for name in ("run", "start", "given", "left"))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(error) from None
        if run != self._run or self._given not in {given, left if given else None}:
            raise ArgumentError(
                f"{self.path} is a checkpoint of another training: data, settings or the policy differ. Make "
                "the same call again, or give another path"
            )
        self.history, self.finished = history, finished
        self.start = name and (name, part_of("start", saved))
        self._given, self._saved = given, saved

    def _unusable(self, error: Exception) -> DataError:
        return DataError(
            f"{self.path} is no checkpoint that can be used ({error}); delete it to begin again, or give "
            "another path"
        )

    def restore(self, policy: Policy, optimizer: Adam, estimator: GradientEstimator) -> tuple[Update, ...]:
        """Bring policy, optimizer and estimator to the checkpoint; return the updates before it."""
        saved, self._saved = self._saved or {}, None
        try:
            policy.load_state_dict(part_of("policy", saved))
            optimizer.load_state_dict(part_of("adam", saved))
            if isinstance(estimator, Resumable):
                estimator.load_state_dict(part_of("estimator", saved))
        except (KeyError, RuntimeError, ValueError) as error:
            raise self._unusable(error) from None
        return self.history

    def write(
        self,
        policy: Policy,
        optimizer: Adam,
        estimator: GradientEstimator,
        *,
        history: tuple[Update, ...],
        finished: bool,
    ) -> None:
        """Replace the file in one step."""
        # Imported where it is used: whoever keeps no checkpoints does not need it.
        from safetensors.torch import save

        tensors = nested(
            policy=policy.state_dict(),
            adam=optimizer.state_dict(),
            estimator=estimator.state_dict() if isinstance(estimator, Resumable) else {},
            start=self.start[1] if self.start else {},
        )
        state = {
            "format": _FORMAT,
            "run": self._run,
            "given": self._given,
            "left": fingerprint(policy.parameters()),
            "finished": finished,
            "start": self.start[0] if self.start else None,
            "history": [astuple(update) for update in history],
        }
        copies = {name: part.detach().cpu().contiguous().clone() for name, part in tensors.items()}
        write_files({self.path: save(copies, metadata={"state": json.dumps(state)})})


def run_fingerprint(
    data: Transitions,
    *,
    model: ModelConfig,
    training: TrainingConfig,
    **settings: object,
) -> str:
    """Return a hash of all that the numbers of a training depend on.

    Args:
        data: The transitions, with the starts of the task.
        model: Settings of the model; not where it computes.
        training: Settings of the training; not its callbacks.
        settings: Others by name. Of an object that is no plain value its fields count, or else its type.
    """
    columns = {name: value for name, value in data.schema.to_dict().items() if name != "units"}
    trained = {name: getattr(training, name) for name in ("start", "updates", "learning_rate", "seed")}
    arrays = (data.states, data.actions, data.rewards, data.next_states, data.terminated, data.truncated)
    settings |= {**model.identity(), **trained, "columns": str(columns)}
    settings["data"] = fingerprint((*arrays, data.episodes, data.weights, data.starts))
    return hashlib.sha256(json.dumps(settings, default=_plain, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> int | str:
    if isinstance(value, Integral):
        return int(value)
    return repr(value) if is_dataclass(value) else type(value).__name__


@contextmanager
def interruption(*, enabled: bool = True) -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed; the second one acts as it did before.

    Where signals cannot be handled, outside the main thread, and where Ctrl-C was to be ignored, nothing
    changes.
    """
    before, asked = signal.getsignal(signal.SIGINT), list[bool]()
    in_main = threading.current_thread() is threading.main_thread()
    if not enabled or not in_main or before in (signal.SIG_IGN, None):
        yield lambda: False
        return

    def note(*_: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        _log.warning(
            "the training stops after this update and leaves a checkpoint; Ctrl-C again stops it now"
        )

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
