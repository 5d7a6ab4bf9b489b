"""Export of a guarded controller to an FMU: co-simulation by FMI 2.0, with the C inside."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tempfile
import zipfile
from importlib.resources import files
from pathlib import Path

from nopg._columns import Columns, readable
from nopg._files import write_files
from nopg.deploy._c import c_sources, rendered, source_target
from nopg.deploy._guard import GuardedController
from nopg.errors import ArgumentError, ExportError

_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")


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
    target = source_target(path, ".fmu", overwrite=overwrite)
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


def _description(name: str, identity: str, columns: Columns) -> bytes:
    given = [f"{what} {action}" for what in ("applied", "fallback") for action in columns.actions]
    names = [
        *columns.measured,
        *given,
        *columns.actions,
        "unknown",
        "status",
        "applied given",
        "fallback given",
    ]
    if twice := [one for one in names if names.count(one) > 1]:
        raise ArgumentError(f"two variables of the FMU would be called {twice[0]!r}; rename that column")
    used = {unit for column, unit in columns.units.items() if column in names}
    return rendered(
        "fmu.xml", name=name, identity=identity, columns=columns, units=sorted(used), readable=readable
    )


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
