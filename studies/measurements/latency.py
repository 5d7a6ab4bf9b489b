"""Latency of a controller: one observation in torch, in the numpy runtime, in onnxruntime and in C."""

from __future__ import annotations

import ctypes
import math
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nopg import Bandwidths, PaperModel, TrainingConfig
from nopg._seeding import generator
from nopg.data import Transitions
from nopg.deploy import GuardedController, GuardRules, RuntimeController, load, to_c, to_onnx
from nopg.envs import Pendulum, collect_grid, collect_uniform
from nopg.policies import LinearPolicy
from nopg.training import Controller, TrainingResult, optimize
from studies.markdown import table
from studies.records import Record

__all__ = ["LIBRARIES", "measure", "page"]

LIBRARIES = ("onnxruntime",)

_ROUNDS, _CALLS = 41, 100
_TIMED = 2_000
_STATES, _ACTIONS = 17, 6

_Call = Callable[[], object]


def _many_columns(rows: int) -> Transitions:
    """Return random transitions of a stable linear system with many columns."""
    rng = generator(0, "many columns")
    s, a = (torch.randn(rows, count, dtype=torch.float64, generator=rng) for count in (_STATES, _ACTIONS))
    B = torch.randn(_ACTIONS, _STATES, dtype=torch.float64, generator=rng)
    return Transitions.from_arrays(s, a, -s.square().sum(dim=1), 0.9 * s + 0.1 * a @ B)


def _trained(data: Transitions) -> TrainingResult:
    """Return a result whose numbers mean nothing; a call takes as long as that of a better one."""
    widths = Bandwidths.from_values(0.5 * data.features.std(dim=0), data.actions.std(dim=0))
    return optimize(
        data,
        0.95,
        model=PaperModel.Config(bandwidths=widths),
        config=TrainingConfig(updates=1, start="given", progress=False),
    )


def _linear(result: TrainingResult) -> TrainingResult:
    """Return the same result with a linear policy instead of the network."""
    features, actions = len(result.policy.schema.features), len(result.policy.schema.actions)
    gain = torch.linspace(-1, 1, features * actions, dtype=torch.float64).reshape(actions, features)
    return replace(result, policy=Controller(LinearPolicy(gain), result.policy.schema))


def _cases() -> Iterator[tuple[str, TrainingResult]]:
    yield "pendulum, 450 rows, network", _trained(collect_grid(Pendulum(), (15, 15, 2)))
    large = _trained(collect_uniform(Pendulum(), 5_000, seed=0))
    yield "pendulum, 5000 rows, network", large
    yield "pendulum, 5000 rows, linear", _linear(large)
    yield f"{_STATES} columns, 5000 rows, network", _trained(_many_columns(5_000))


def _onnx(robot: RuntimeController, dtype: Any, observation: np.ndarray[Any, Any], folder: Path) -> _Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = folder / f"{dtype}.onnx"
    to_onnx(robot, path, dtype=dtype)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {"observation": observation[None].astype(dtype)}
    return lambda: session.run(None, given)


def _in_c(guard: GuardedController, observation: np.ndarray[Any, Any], folder: Path) -> _Call:
    """Return a step of the guard in C, compiled by gcc -O2, through ctypes."""
    source, built = to_c(guard, folder / "control.c"), folder / "control.so"
    command = ["gcc", "-std=c99", "-O2", "-shared", "-fPIC", str(source), "-o", str(built), "-lm"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(built))
    step, memory = library.control_step, ctypes.create_string_buffer(1 << 16)
    library.control_init(memory)
    actions, given = np.zeros(len(guard.controller.low)), observation.astype(np.float64)
    pointers = [one.ctypes.data_as(ctypes.c_void_p) for one in (given, actions)]
    never = ctypes.c_double(math.nan)
    return lambda: step(memory, pointers[0], None, None, never, never, pointers[1])


def _sections(folder: Path) -> dict[str, int]:
    """Return the bytes of code and of constants in C, compiled by gcc -Os."""
    built = folder / "control.o"
    subprocess.run(["gcc", "-std=c99", "-Os", "-c", str(folder / "control.c"), "-o", str(built)], check=True)
    listed = subprocess.run(["size", "-A", str(built)], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    sizes = {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[1].isdigit()}
    constants = sum(size for name, size in sizes.items() if name.startswith(".rodata"))
    return {"code": sizes[".text"], "constants": constants}


def _calls(result: TrainingResult, folder: Path) -> dict[str, _Call]:
    observation = result.start_support.states[0].numpy()
    robot = load(result.save(folder / "saved", data=False))
    guard = GuardedController(robot, rules=GuardRules(most_unknown=1.0))

    def everything() -> object:
        return result.policy(observation), result.unknown_at(observation[None])

    return {
        "torch, action": lambda: result.policy(observation),
        "numpy, action": lambda: robot(observation),
        "torch, all": everything,
        "numpy, all": lambda: guard.act(observation),
        "onnx float64, all": _onnx(robot, "float64", observation, folder),
        "onnx float32, all": _onnx(robot, "float32", observation, folder),
        "C, all": _in_c(guard, observation, folder),
    }


def _microseconds(calls: dict[str, _Call]) -> dict[str, float]:
    """Return the median CPU time of a call over rounds in which all take turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            call()  # fills the cache
            start = time.process_time_ns()
            for _ in range(_CALLS):
                call()
            taken[name].append((time.process_time_ns() - start) / _CALLS / 1e3)
    return {name: statistics.median(rounds) for name, rounds in taken.items()}


def _wall_microseconds(calls: dict[str, _Call], count: int = _TIMED) -> dict[str, dict[str, float]]:
    """Return quantiles of the wall time of single calls, which take turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(count):
        for name, call in calls.items():
            start = time.perf_counter_ns()
            call()
            taken[name].append((time.perf_counter_ns() - start) / 1e3)
    return {name: _quantiles(times) for name, times in taken.items()}


def _quantiles(times: Sequence[float]) -> dict[str, float]:
    p50, p99 = np.quantile(times, (0.5, 0.99)).tolist()
    return {"p50": p50, "p99": p99, "max": max(times)}


def measure() -> Iterator[dict[str, Any]]:
    """Yield the microseconds of each controller."""
    torch.set_num_threads(1)
    for name, result in _cases():
        with tempfile.TemporaryDirectory() as folder:
            calls = _calls(result, Path(folder))
            results = {
                "charts": result.support.num_charts,
                "wall": _wall_microseconds(calls),
                "microseconds": _microseconds(calls),
                "bytes": _sections(Path(folder)),
            }
        yield {"benchmark": name, "results": results}


def page(records: Sequence[Record]) -> str:
    """Return the page."""
    known = records[-1].setup["versions"]
    versions = ", ".join(f"{name} {known[name]}" for name in ("torch", "numpy", "onnxruntime"))
    lines = [
        "# What one call takes",
        "",
        "Made by `python -m studies page latency` from `results/studies/latency.jsonl`; do not edit. "
        f"Microseconds of CPU time for one observation on one thread: the median of {_ROUNDS} rounds of "
        f"{_CALLS} calls in which all take turns, in one process ({versions}). In brackets how many times "
        "faster than torch in the same run; compare those, not the microseconds, with another machine.",
        "",
        "## The action alone",
        "",
        "`result.policy(observation)` and the controller of `nopg.deploy.load`. An ONNX graph always returns "
        "action and unknown share.",
        "",
        *_table(records, ("torch, action", "numpy, action")),
        "",
        "## Action and unknown share",
        "",
        "The same with the unknown share, by the number of charts of the model: in torch by "
        "`result.unknown_at`, in numpy by `GuardedController.act`, in C by the step that `to_c` writes "
        "(`gcc -O2`, called through ctypes).",
        "",
        *_table(records, ("torch, all", "numpy, all", "onnx float64, all", "onnx float32, all", "C, all")),
        "",
        *_wall_section(records),
        "## Size in C",
        "",
        "Bytes of the object file (`gcc -Os`); constants hold the charts and the policy.",
        "",
        *table(
            ("controller", "charts", "code", "constants"),
            [
                [one.benchmark, *map(str, (one.results["charts"], *one.results["bytes"].values()))]
                for one in records
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _wall_section(records: Sequence[Record]) -> list[str]:
    """Return the quantiles of single calls, which records have since they also have the load."""
    timed = [one for one in records if "wall" in one.results]
    rows = [
        [one.benchmark, name, *(f"{value:.0f}" for value in times.values()), f"{one.setup['load']}"]
        for one in timed
        for name, times in one.results["wall"].items()
    ]
    if not rows:
        return []
    return [
        "## Single calls",
        "",
        f"Microseconds of wall time of {_TIMED} single calls, and the load of the machine before. The "
        "largest is due to the operating system as much as to the controller.",
        "",
        *table(("controller", "call", "p50", "p99", "max", "load before"), rows),
        "",
    ]


def _table(records: Sequence[Record], methods: tuple[str, ...]) -> list[str]:
    rows = []
    for record in records:
        taken = record.results["microseconds"]
        first = taken[methods[0]]
        faster = [f"{taken[name]:.0f} ({first / taken[name]:.1f}×)" for name in methods[1:]]
        rows.append([record.benchmark, f"{record.results['charts']}", f"{first:.0f}", *faster])
    return table(("controller", "charts", *(method.split(",")[0] for method in methods)), rows)
