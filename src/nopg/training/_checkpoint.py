"""Checkpoints: one file from which an interrupted training is resumed."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, is_dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import torch

from nopg._files import fingerprint, nested, part_of, write_files
from nopg.data import Transitions
from nopg.errors import ArgumentError, DataError
from nopg.models._local_model import ModelConfig
from nopg.policies import Policy
from nopg.training._config import TrainingConfig
from nopg.training._reports import Update

_FORMAT = 5
_log = logging.getLogger(__name__)


Parts = Mapping[str, Any]
"""What a training goes on with, by name: objects with a `state_dict`."""


class Checkpoint:
    """The file with the policy, Adam, the estimator and the updates of one training.

    A training goes on from its own checkpoint, by the hash of its data and settings; another's is refused.
    """

    every: ClassVar[int] = 20  # updates between two writes

    def __init__(self, path: str | os.PathLike[str], run: str) -> None:
        self.path = Path(path)
        self._state: dict[str, Any] = {"format": _FORMAT, "run": run}
        self._saved: dict[str, torch.Tensor] | None = None
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                state = json.loads(file.metadata()["state"])
                self._saved = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']!r} instead of {_FORMAT}")
            run = state["run"]
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise self._unusable(error) from None
        if run != self._state["run"]:
            raise ArgumentError(
                f"{self.path} is a checkpoint of another training: data, settings or the policy differ. Make "
                "the same call again, or give another path"
            )
        self._state = state

    def _unusable(self, error: Exception) -> DataError:
        return DataError(
            f"{self.path} is not a usable checkpoint ({error}); delete it to begin again, or give "
            "another path"
        )

    def restore(self, parts: Parts) -> tuple[list[Update], bool]:
        """Bring all parts to the checkpoint, if there is one; return the updates, and if it has ended."""
        if (saved := self._saved) is None:
            self.write(parts, history=(), finished=False)
            return [], False
        try:
            for name, part in parts.items():
                part.load_state_dict(part_of(name, saved))
            return [Update(*row) for row in self._state["history"]], self._state["finished"]
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise self._unusable(error) from None

    def write(self, parts: Parts, *, history: Sequence[Update], finished: bool) -> None:
        """Replace the file in one step."""
        from safetensors.torch import save

        tensors = nested(**{name: part.state_dict() for name, part in parts.items()})
        self._state |= {"finished": finished, "history": [astuple(update) for update in history]}
        copies = {name: part.detach().contiguous().clone() for name, part in tensors.items()}
        write_files({self.path: save(copies, metadata={"state": json.dumps(self._state)})})


def run_fingerprint(
    data: Transitions, *, model: ModelConfig, training: TrainingConfig, **settings: object
) -> str:
    """Return a hash of all that the numbers of a training depend on."""
    columns = {name: value for name, value in data.schema.to_dict().items() if name != "units"}
    trained = {name: getattr(training, name) for name in ("start", "updates", "learning_rate", "seed")}
    arrays = (data.states, data.actions, data.rewards, data.next_states, data.terminated, data.truncated)
    settings |= {**model.identity(), **trained, "columns": str(columns)}
    settings["data"] = fingerprint((*arrays, data.episodes, data.weights, data.starts))
    return hashlib.sha256(json.dumps(settings, default=_plain, sort_keys=True).encode()).hexdigest()


def _plain(value: object) -> int | str:
    if isinstance(value, Policy):
        return fingerprint(value.state_dict().values())
    if isinstance(value, Integral):
        return int(value)
    return repr(value) if is_dataclass(value) else type(value).__name__


@contextmanager
def interruption() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed; the second one acts as it did before.

    Outside the main thread, and where Ctrl-C was to be ignored, nothing changes.
    """
    before, asked = signal.getsignal(signal.SIGINT), list[bool]()
    heard = threading.current_thread() is threading.main_thread() and before not in (signal.SIG_IGN, None)

    def note(*_: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        _log.warning(
            "the training stops after this update and leaves a checkpoint; Ctrl-C again stops it now"
        )

    if heard:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(asked)
    finally:
        if heard:
            signal.signal(signal.SIGINT, before)
