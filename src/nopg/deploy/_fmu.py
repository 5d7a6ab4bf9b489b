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
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from jinja2 import StrictUndefined, Template

from nopg._columns import Columns
from nopg._files import write_files
from nopg._version import __version__
from nopg.deploy._c import c_sources, source_target
from nopg.deploy._guard import GuardedController
from nopg.errors import ArgumentError, ExportError

_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


class _Variable(NamedTuple):
    """A variable of an FMU; its reference is its place among those of its type."""

    name: str
    reference: int
    type: Literal["Real", "Integer", "Boolean"]
    causality: Literal["input", "output"]
    description: str
    unit: str = ""


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
    target = source_target(path, ".fmu")
    if target.exists() and not overwrite:
        raise ArgumentError(f"{target} exists already; give another name, or overwrite=True")
    columns, sources = guard.controller.columns, c_sources(guard, "control")
    sources["fmu.c"] = files("nopg.deploy").joinpath("fmu.c").read_bytes()
    identity = hashlib.sha256(b"".join(sources.values())).hexdigest()[:32]
    defined = f'#define FMU_IDENTITY "{identity}"\n#define FMU_INTERVAL {columns.interval or 0.0!r}\n'
    sources["identity.h"] = defined.encode("ascii")
    members = {
        "modelDescription.xml": _description(target.stem, identity, columns),
        **{f"sources/{file}": content for file, content in sources.items()},
        f"binaries/linux64/{target.stem}.so": _built(sources),
    }
    write_files({target: _archive(members)})
    return target


def _variables(columns: Columns) -> Iterator[_Variable]:
    applied, fallback = "received by the plant since the last step", "action of a trusted controller"
    reals: list[tuple[str, str, Literal["input", "output"], str]] = [
        *((name, name, "input", "measured; NaN if missing") for name in columns.measured),
        *((f"applied {name}", name, "input", applied) for name in columns.actions),
        *((f"fallback {name}", name, "input", fallback) for name in columns.actions),
        *((name, name, "output", "action") for name in columns.actions),
        ("unknown", "", "output", "unknown share of the state and the action of the policy"),
    ]
    for k, (name, column, causality, description) in enumerate(reals):
        unit = _visible(columns.units.get(column, ""))
        yield _Variable(_visible(name), k, "Real", causality, description, unit)
    meaning = "0 policy, 1 fallback, 2 last resort, 3 no action (outputs are held)"
    yield _Variable("status", 0, "Integer", "output", meaning)
    for k, what in enumerate(("applied", "fallback")):
        yield _Variable(f"{what} given", k, "Boolean", "input", f"whether {what} … count")


def _visible(text: str) -> str:
    r"""Return a text as XML may hold it: what cannot be printed is written as `\n` or `\x07`."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def _description(name: str, identity: str, columns: Columns) -> bytes:
    variables = [*_variables(columns)]
    names = [one.name for one in variables]
    if twice := [one for one in names if names.count(one) > 1]:
        raise ArgumentError(f"two variables of the FMU would be called {twice[0]!r}; rename that column")
    text = files("nopg.deploy").joinpath("fmu.xml").read_text(encoding="utf-8")
    template = Template(text, autoescape=True, trim_blocks=True, undefined=StrictUndefined)
    units, interval = sorted({one.unit for one in variables} - {""}), columns.interval
    facts = {"name": name, "identity": identity, "version": __version__, "units": units, "interval": interval}
    found: bytes = template.render(facts, variables=variables).encode()
    return found


def _built(sources: dict[str, bytes]) -> bytes:
    """Return the shared library of the sources."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise ExportError("an FMU has a compiled library, and there is no C compiler; install one as `cc`")
    with tempfile.TemporaryDirectory() as name:
        for file, content in sources.items():
            Path(name, file).write_bytes(content)
        command = [compiler, *_FLAGS, "fmu.c", "control.c", "-o", "fmu.so", "-lm"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=name)
        if done.returncode != 0:
            raise ExportError(f"the C compiler failed: {done.stderr.strip()[:500]}")
        return Path(name, "fmu.so").read_bytes()


def _archive(members: dict[str, bytes]) -> bytes:
    """Return a zip file whose bytes depend on the members alone."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, content)
    return buffer.getvalue()
