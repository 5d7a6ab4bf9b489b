"""A second device for machines that have none: it computes on the CPU and refuses to meet the CPU's tensors.

It goes by the name of torch's `meta`, whose tensors have numbers inside `other_device()` and none outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["OTHER", "Elsewhere", "other_device"]

OTHER = torch.device("meta")
_CROSSINGS = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class Elsewhere(torch.Tensor):
    """A tensor on the other device; the CPU holds its numbers."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Elsewhere:
        """Wrap numbers that the CPU holds."""
        place: dict[str, Any] = {}
        if held.layout == torch.strided:
            place = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        tensor: Elsewhere = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, dtype=held.dtype, device=OTHER, **place
        )
        tensor.held = held
        return tensor

    def new_tensor(self, data: Any) -> Elsewhere:  # type: ignore[override]
        """Return numbers beside this tensor."""
        return Elsewhere(self.held.new_tensor(data))

    def tolist(self) -> list[Any]:
        """Return the numbers."""
        numbers: list[Any] = self.held.tolist()
        return numbers

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute with what is held."""
        return _computed(func, args, dict(kwargs or {}))


class _OtherDevice(TorchDispatchMode):
    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, dict(kwargs or {}))


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Let tensors be brought to the other device, and give its name."""
    with _OtherDevice():  # type: ignore[no-untyped-call]
        yield OTHER


def _computed(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Return func of these arguments, on the device where they are or where it was asked for."""
    given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in given if isinstance(tensor, Elsewhere)]
    here = [tensor for tensor in given if not isinstance(tensor, Elsewhere) and tensor.ndim > 0]
    if there and here and func not in _CROSSINGS:
        raise RuntimeError(f"{func} of tensors on two devices, {OTHER} and {here[0].device}")

    asked = kwargs.get("device")
    stays = asked is None and bool(there)
    if asked is not None:
        kwargs["device"] = torch.device("cpu")
    held_args, held_kwargs = tree_map(_held, (args, kwargs))
    result = func(*held_args, **held_kwargs)
    if not (stays or asked == OTHER):
        return result
    known = {id(tensor.held): tensor for tensor in there}  # what was changed in place stays the same tensor
    return tree_map(lambda leaf: known[id(leaf)] if id(leaf) in known else _elsewhere(leaf), result)


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, Elsewhere) else leaf


def _elsewhere(leaf: Any) -> Any:
    return Elsewhere(leaf) if isinstance(leaf, torch.Tensor) else leaf
