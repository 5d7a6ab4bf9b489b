"""Export of a guarded controller to an FMU: co-simulation by FMI 2.0, with the C inside."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from nopg._columns import Columns
from nopg._files import write_files
from nopg._version import __version__
from nopg.deploy._c99 import c_sources
from nopg.deploy._control_program import control_program
from nopg.deploy._guard import GuardedController
from nopg.deploy._source_text import source_target
from nopg.errors import ArgumentError, ExportError

_PREFIX = "control"
"""Of the C functions inside, whatever the FMU is called."""
_PLATFORM, _LIBRARY_SUFFIX = "linux64", ".so"
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")

Type = Literal["Real", "Integer", "Boolean"]


@dataclass(frozen=True, slots=True)
class ScalarVariable:
    """A variable of an FMU; its reference is its place among those of its type."""

    name: str
    reference: int
    type: Type
    causality: Literal["input", "output"]
    unit: str | None = None
    description: str = ""


def to_fmu(guard: GuardedController, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write a guarded controller as an FMU for co-simulation (FMI 2.0), and return its path.

    Inputs are the measured columns by their names and, where `applied given` and `fallback given` are true,
    `applied …` and `fallback …` of every action. Outputs are the actions, `status` and `unknown`.
    The controller acts at the beginning of a communication step, at most once per sampling interval.

    The archive has the C sources and a library for 64-bit Linux, which the C compiler of this machine
    (`cc`) builds.

    Args:
        guard: The controller with its limits; a fallback function in it is left out.
        path: Ends in `.fmu`, and must not exist yet.
        overwrite: Whether an older file is replaced.

    Raises:
        ExportError: There is no C compiler, or it failed.
    """
    target = source_target(path, ".fmu", overwrite)
    name, columns = target.stem, guard.controller.columns
    header, source = c_sources(control_program(guard), _PREFIX)
    variables = fmu_variables(columns)
    wrapper = files("nopg.deploy").joinpath("fmu.c").read_text(encoding="ascii")
    identity = hashlib.sha256((header + source + wrapper).encode()).hexdigest()[:32]
    sources = {
        f"{_PREFIX}.h": header,
        f"{_PREFIX}.c": source,
        "identity.h": _identity_header(identity, columns),
        "fmu.c": wrapper,
    }
    members = {
        "modelDescription.xml": _description(name, identity, columns, variables),
        **{f"sources/{file}": text.encode("ascii") for file, text in sources.items()},
        f"binaries/{_PLATFORM}/{name}{_LIBRARY_SUFFIX}": _built(sources),
    }
    write_files({target: _archive(members)})
    return target


def fmu_variables(columns: Columns) -> list[ScalarVariable]:
    """Return the variables of the FMU of a controller; two of one name are refused."""
    found = list(_variables(columns))
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ArgumentError(f"two variables of the FMU would be called {twice[0]!r}; rename that column")
    return found


def _variables(columns: Columns) -> Iterator[ScalarVariable]:
    reals: list[tuple[str, Literal["input", "output"], str | None, str]] = [
        *((name, "input", columns.units.get(name), "measured; NaN if missing") for name in columns.measured),
        *(
            (f"{what} {name}", "input", columns.units.get(name), description)
            for what, description in (
                ("applied", "received by the plant since the last step"),
                ("fallback", "action of a trusted controller"),
            )
            for name in columns.actions
        ),
        *((name, "output", columns.units.get(name), "action") for name in columns.actions),
        ("unknown", "output", None, "unknown share of the state and the action of the policy"),
    ]
    for k, (name, causality, unit, description) in enumerate(reals):
        yield ScalarVariable(name, k, "Real", causality, unit, description)
    meaning = "0 policy, 1 fallback, 2 last resort, 3 no action (outputs are held)"
    yield ScalarVariable("status", 0, "Integer", "output", description=meaning)
    for k, what in enumerate(("applied", "fallback")):
        yield ScalarVariable(f"{what} given", k, "Boolean", "input", description=f"whether {what} … count")


def _description(name: str, identity: str, columns: Columns, variables: list[ScalarVariable]) -> bytes:
    root = ElementTree.Element(
        "fmiModelDescription",
        fmiVersion="2.0",
        modelName=name,
        guid=identity,
        generationTool=f"nopg {__version__}",
        variableNamingConvention="flat",
        numberOfEventIndicators="0",
    )
    simulation = ElementTree.SubElement(
        root,
        "CoSimulation",
        modelIdentifier=name,
        canHandleVariableCommunicationStepSize="true",
        canNotUseMemoryManagementFunctions="true",
        canGetAndSetFMUstate="false",
    )
    listed = ElementTree.SubElement(simulation, "SourceFiles")
    for file in ("fmu.c", f"{_PREFIX}.c"):
        ElementTree.SubElement(listed, "File", name=file)
    if units := sorted({one.unit for one in variables if one.unit is not None}):
        defined = ElementTree.SubElement(root, "UnitDefinitions")
        for unit in units:
            ElementTree.SubElement(defined, "Unit", name=unit)
    if columns.interval is not None:
        ElementTree.SubElement(root, "DefaultExperiment", stepSize=repr(columns.interval))
    declared = ElementTree.SubElement(root, "ModelVariables")
    for one in variables:
        _declare(declared, one)
    structure = ElementTree.SubElement(root, "ModelStructure")
    outputs = [k for k, one in enumerate(variables, start=1) if one.causality == "output"]
    for part in ("Outputs", "InitialUnknowns"):
        known = ElementTree.SubElement(structure, part)
        for k in outputs:
            ElementTree.SubElement(known, "Unknown", index=str(k))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _declare(parent: ElementTree.Element, one: ScalarVariable) -> None:
    variable = ElementTree.SubElement(
        parent,
        "ScalarVariable",
        name=one.name,
        valueReference=str(one.reference),
        description=one.description,
        causality=one.causality,
        variability="continuous" if one.type == "Real" and one.causality == "input" else "discrete",
    )
    if one.causality == "output":
        variable.set("initial", "calculated")
    kind = ElementTree.SubElement(variable, one.type)
    if one.unit is not None:
        kind.set("unit", one.unit)
    if one.causality == "input":
        kind.set("start", "false" if one.type == "Boolean" else "0")


def _identity_header(identity: str, columns: Columns) -> str:
    interval = 0.0 if columns.interval is None else columns.interval
    return f'#define FMU_IDENTITY "{identity}"\n#define FMU_INTERVAL {interval!r}\n'


def _built(sources: dict[str, str]) -> bytes:
    """Return the shared library of the sources."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ExportError("an FMU has a compiled library, and there is no C compiler; install one as `cc`")
    with tempfile.TemporaryDirectory() as name:
        folder, built = Path(name), "fmu.so"
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="ascii")
        command = [compiler, *_FLAGS, "fmu.c", f"{_PREFIX}.c", "-o", built, "-lm"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        if done.returncode != 0:
            raise ExportError(f"the C compiler failed: {done.stderr.strip()[:500]}")
        return (folder / built).read_bytes()


def _archive(members: dict[str, bytes]) -> bytes:
    """Return a zip file whose bytes depend on the members alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
