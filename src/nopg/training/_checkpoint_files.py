"""A checkpoint on disk: JSON and safetensors in one folder, whole under its name or not there at all."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypedDict

import torch

from nopg._files import flush_folder, write_new
from nopg._json import write_json
from nopg.errors import DataError
from nopg.training._fingerprint import RunFingerprint
from nopg.training._reports import Update

__all__ = ["ADVICE", "State", "complete_folders", "read_folder", "write_folder"]

ADVICE = "delete it to go on from the one before, or give another folder"
"""What to do about a checkpoint that cannot be used."""

_FORMAT = 2
_TENSORS = "tensors.safetensors"
_KEPT = 2
_NAME = re.compile(r"update-(\d{6,12})")
_COLUMNS = [column.name for column in fields(Update)]
_WHOLE = {"number", "planned", "products"}
_DTYPES = {torch.bool, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16}
_DTYPES |= {torch.float32, torch.float64}

Tensors = Mapping[str, torch.Tensor]


class State(TypedDict):
    """Contents of `state.json` beside the format and the history.

    Keys:
        fingerprint: What tells this training from another.
        finished: Whether it had come to its end.
        eps: Adam's ε.
        most_candidates: See `ResumeState`.
        start: Name of the start that was chosen.
        parameters: Hash of the parameters of the policy.
    """

    fingerprint: RunFingerprint
    finished: bool
    eps: float
    most_candidates: int | None
    start: str | None
    parameters: str | None


def complete_folders(folder: Path) -> dict[int, Path]:
    """Return the checkpoints in a folder by their number of updates."""
    found = ((_NAME.fullmatch(path.name), path) for path in folder.glob("update-*"))
    return {int(match[1]): path for match, path in found if match}


def write_folder(path: Path, state: State, history: tuple[Update, ...], tensors: Tensors) -> None:
    """Write a checkpoint under its name when all of it is on the disk, and let go of old ones.

    Args:
        path: Of the checkpoint, `…/update-000020`.
        state: Of the training.
        history: Every update so far.
        tensors: Of the policy, the optimizer and the estimator.
    """
    folder, unfinished = path.parent, path.with_name(f".unfinished-{path.name}")
    for left in (*folder.glob(".unfinished-update-*"), *folder.glob(".removed-update-*")):
        shutil.rmtree(left)
    unfinished.mkdir()
    _write_tensors(unfinished / _TENSORS, tensors)
    rows = [[_to_json(number) for number in astuple(update)] for update in history]
    write_json(
        unfinished / "state.json",
        {
            "format": _FORMAT,
            **state,
            "eps": _to_json(state["eps"]),
            "history": {"columns": _COLUMNS, "rows": rows},
        },
    )
    flush_folder(unfinished)
    unfinished.rename(path)
    flush_folder(folder)
    complete = complete_folders(folder)
    for number in sorted(complete)[:-_KEPT]:
        # Half a checkpoint must not stand under its name when it goes either.
        removed = complete[number].rename(folder / f".removed-{complete[number].name}")
        shutil.rmtree(removed)


def read_folder(path: Path) -> tuple[State, tuple[Update, ...], Tensors]:
    """Return the state, the history and the tensors."""
    state, history = _read_state(path)
    return state, history, _read_tensors(path)


def _read_state(path: Path) -> tuple[State, tuple[Update, ...]]:
    try:
        content = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise ValueError(f"it is of format {content['format']!r}, this version reads {_FORMAT}")
        if content["history"]["columns"] != _COLUMNS:
            raise ValueError(f"its history has the columns {content['history']['columns']!r}")
        history = tuple(_update(row) for row in content["history"]["rows"])
        counted = [update.number for update in history]
        if counted != list(range(1, len(history) + 1)) or path.name != f"update-{len(history):06}":
            raise ValueError(f"its history has {len(history)} updates")
        most, start = content["most_candidates"], content["start"]
        state = State(
            fingerprint=dict(content["fingerprint"]),
            finished=bool(content["finished"]),
            eps=float(content["eps"]),
            most_candidates=None if most is None else int(most),
            start=None if start is None else str(start),
            parameters=content.get("parameters"),
        )
    except KeyError as error:
        raise _unreadable(path, f"state.json says nothing of {error}") from None
    except (ArithmeticError, OSError, RecursionError, TypeError, ValueError) as error:
        raise _unreadable(path, f"state.json: {error}") from None
    return state, history


def _update(row: list[Any]) -> Update:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Update(**{name: int(x) if name in _WHOLE else float(x) for name, x in values.items()})  # type: ignore[arg-type]


def _to_json(number: float) -> float | str:
    """Return a number as JSON has it; what it has no number for as text, which `float` reads."""
    return number if math.isfinite(number) else str(number)


def _write_tensors(path: Path, tensors: Tensors) -> None:
    # Imported where it is used: whoever keeps no checkpoints does not need it.
    from safetensors.torch import save

    # A copy of each: two names for one tensor are refused.
    write_new(path, save({name: part.detach().cpu().contiguous().clone() for name, part in tensors.items()}))


def _read_tensors(path: Path) -> Tensors:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path / _TENSORS, framework="pt") as file:
            # A copy of each: they would lie in the file otherwise, anywhere in memory.
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, f"{_TENSORS}: {error}") from None
    if strange := sorted(key for key, part in tensors.items() if part.dtype not in _DTYPES):
        raise _unreadable(path, f"{_TENSORS}: {strange[0]} is of type {tensors[strange[0]].dtype}")
    return tensors


def _unreadable(path: Path, reason: str) -> DataError:
    return DataError(f"{path} is no checkpoint that can be read ({reason}); {ADVICE}")
