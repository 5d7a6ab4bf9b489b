"""Controllers as FMUs: valid by FMPy, and with the decisions and the numbers of numpy in co-simulation."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fmpy
import numpy as np
import pytest
from fmpy.fmi2 import FMU2Slave
from fmpy.validation import validate_fmu

from deploy.known_places import AWKWARD_NAMES
from deploy.native import (
    ALL_RULES,
    COMPILERS,
    NO_ACTION,
    STRICT,
    InNumpy,
    Inputs,
    Outcome,
    difference,
    faulty_inputs,
    with_memory,
)
from deploy.stream_cases import INTERVAL
from deploy.test_c import saved
from nopg._columns import Columns
from nopg.deploy import GuardedController, to_fmu
from nopg.errors import ArgumentError, ExportError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: cc is missing")

TOLERANCE = 1e-12
STEPS = 3_000


@pytest.fixture(scope="module")
def guard() -> GuardedController:
    return GuardedController(with_memory(), rules=ALL_RULES)


@pytest.fixture(scope="module")
def exported(guard: GuardedController, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return to_fmu(guard, tmp_path_factory.mktemp("fmu") / "plant.fmu")


class InFmu:
    """An FMU that is stepped by FMPy."""

    def __init__(self, path: Path, folder: Path) -> None:
        description = fmpy.read_model_description(str(path))
        self.references = {one.name: one.valueReference for one in description.modelVariables}
        fmpy.extract(str(path), str(folder))
        self.slave = FMU2Slave(
            guid=description.guid,
            unzipDirectory=str(folder),
            modelIdentifier=description.coSimulation.modelIdentifier,
            instanceName="one",
        )
        self.slave.instantiate()
        self._begin()

    def _begin(self) -> None:
        self.slave.setupExperiment(startTime=0.0)
        self.slave.enterInitializationMode()
        self.slave.exitInitializationMode()

    def close(self) -> None:
        self.slave.terminate()
        self.slave.freeInstance()

    def real(self, *names: str) -> list[float]:
        found: list[float] = self.slave.getReal([self.references[name] for name in names])
        return found

    def set_real(self, **values: Any) -> None:
        names = [name.replace("_", " ") for name in values]
        self.slave.setReal([self.references[name] for name in names], list(values.values()))

    def step(self, inputs: Inputs) -> Outcome:
        if inputs.reset:
            self.slave.reset()
            self._begin()
        level, angle = inputs.measured
        self.set_real(level=level, angle=angle)
        for what, given in (("applied", inputs.applied), ("fallback", inputs.fallback)):
            self.slave.setBoolean([self.references[f"{what} given"]], [given is not None])
            if given is not None:
                self.set_real(**{f"{what}_valve": given[0], f"{what}_pump": given[1]})
        assert inputs.time is not None
        self.slave.doStep(currentCommunicationPoint=inputs.time, communicationStepSize=INTERVAL)
        (status,) = self.slave.getInteger([self.references["status"]])
        valve, pump, unknown = self.real("valve", "pump", "unknown")
        action = np.full(2, np.nan) if status == NO_ACTION else np.array([valve, pump])
        return Outcome(status, action, unknown)


@pytest.fixture
def unit(exported: Path, tmp_path: Path) -> Iterator[InFmu]:
    found = InFmu(exported, tmp_path)
    yield found
    found.close()


def test_fmpy_finds_no_fault_in_the_archive(exported: Path) -> None:
    assert validate_fmu(str(exported)) == []
    assert fmpy.supported_platforms(str(exported)) == ["c-code", "linux64"]


def test_the_unit_and_numpy_agree_on_a_stream_with_every_fault_of_a_simulator(
    unit: InFmu, guard: GuardedController
) -> None:
    # One step per sampling interval, with a pause of ten now and then.
    pauses = np.cumsum(np.random.default_rng(1).random(STEPS) < 0.01)
    times = INTERVAL * (np.arange(STEPS) + 10.0 * pauses)
    steps = [
        Inputs(one.measured, one.applied, one.fallback, float(time), one.reset)
        for one, time in zip(faulty_inputs(STEPS), times, strict=True)
    ]
    reference = InNumpy(guard)
    found = difference([unit.step(one) for one in steps], reference.run(steps))
    assert found.same_decisions
    assert found.worst <= TOLERANCE
    assert min(found.counts[:3]) > 20
    assert {"frozen: level", "later than the deadline"} <= reference.reasons


def test_the_controller_acts_once_per_sampling_interval_however_short_the_steps(unit: InFmu) -> None:
    values = []
    for k in range(20):
        unit.set_real(level=0.01 * k)
        unit.slave.doStep(currentCommunicationPoint=k * INTERVAL / 5, communicationStepSize=INTERVAL / 5)
        values.append(unit.real("unknown")[0])
    changes = np.flatnonzero(np.diff(values)) + 1
    assert changes.tolist() == [5, 10, 15]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_wrapper_compiles_without_warnings(compiler: str, exported: Path, tmp_path: Path) -> None:
    sources = Path(fmpy.extract(str(exported), str(tmp_path))) / "sources"
    command = [compiler, *STRICT, "-c", str(sources / "fmu.c"), "-o", str(tmp_path / "one.o")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_exporting_twice_gives_the_same_bytes(
    exported: Path, guard: GuardedController, tmp_path: Path
) -> None:
    assert to_fmu(guard, tmp_path / "plant.fmu").read_bytes() == exported.read_bytes()


def test_names_of_columns_are_readable_in_a_valid_description(tmp_path: Path) -> None:
    columns = Columns(("level", *AWKWARD_NAMES), ("valve",), units={"level": "m³/h\x07", "valve": '"<'})
    runtime = saved(columns, {"kind": "linear"}, gain=[[0.0] * (1 + len(AWKWARD_NAMES))])
    path = to_fmu(GuardedController(runtime), tmp_path / "plant.fmu")
    description = fmpy.read_model_description(str(path))
    names = [one.name for one in description.modelVariables]
    shown = [one.replace("\x07", "\\x07").replace("\x00", "\\x00") for one in AWKWARD_NAMES]
    shown = [one.replace("\n", "\\n").replace("\udc80", "\\udc80") for one in shown]
    assert names[: len(shown) + 1] == ["level", *shown]
    assert [one.name for one in description.unitDefinitions] == ['"<', "m³/h\\x07"]


def test_two_variables_of_one_name_are_refused(tmp_path: Path) -> None:
    runtime = saved(Columns(("unknown",), ("valve",)), {"kind": "linear"}, gain=[[1.0]])
    with pytest.raises(ArgumentError, match="would be called 'unknown'"):
        to_fmu(GuardedController(runtime), tmp_path / "plant.fmu")


def test_without_a_compiler_there_is_no_fmu(
    guard: GuardedController, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ExportError, match="no C compiler"):
        to_fmu(guard, tmp_path / "plant.fmu")
    assert not list(tmp_path.iterdir())
