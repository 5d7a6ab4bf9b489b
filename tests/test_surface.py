"""The public surface: which names there are, what they cost to import, how errors are related."""

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import nopg
from nopg import errors

PACKAGES = sorted(
    ["data.io"]
    + [module.name for module in pkgutil.iter_modules(nopg.__path__) if not module.name.startswith("_")]
)


def package(name: str) -> ModuleType:
    return importlib.import_module(f"nopg.{name}")


def isort_order(name: str) -> tuple[int, str]:
    """Constants first, then classes, then the rest."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        return 0, name
    return (1 if name[0].isupper() else 2), name


def test_every_name_of_the_package_exists_and_is_listed_once() -> None:
    assert all(hasattr(nopg, name) for name in nopg.__all__)
    assert len(set(nopg.__all__)) == len(nopg.__all__)
    ours = {name for name, value in vars(nopg).items() if getattr(value, "__module__", "").startswith("nopg")}
    assert {name for name in ours if not name.startswith("_")} == set(nopg.__all__) - {"__version__"}
    assert set(nopg.__all__) <= set(dir(nopg))
    assert not {"Any", "TYPE_CHECKING", "import_module"} & set(dir(nopg))
    assert all(hasattr(nopg, name) for name in dir(nopg))  # a package needs no import of its own
    with pytest.raises(AttributeError, match="optimise"):
        nopg.optimise  # noqa: B018


def test_what_needs_no_torch_does_not_import_it() -> None:
    script = (
        "import sys, nopg.bundles, nopg.errors, nopg.deploy; print({'torch', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_a_package_lists_can_be_imported_from_it(name: str) -> None:
    module = package(name)
    assert module.__all__, "a package without names is no package"
    for public in module.__all__:
        assert getattr(module, public) is not None
        assert not public.startswith("_")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_lists_its_names_in_order_and_once(name: str) -> None:
    names = package(name).__all__
    assert names == sorted(set(names), key=isort_order)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_and_every_class_and_function_it_lists_has_a_docstring(name: str) -> None:
    module = package(name)
    assert module.__doc__
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            # A dataclass without a docstring is given its signature as one.
            assert value.__doc__, public
            assert not value.__doc__.startswith(f"{public}("), public


def test_every_module_says_what_it_owns() -> None:
    files = sorted(Path(nopg.__path__[0]).rglob("*.py"))
    assert len(files) > len(PACKAGES)
    for file in files:
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), file.name


def test_importing_the_package_loads_no_optional_dependency() -> None:
    script = (
        "import sys, nopg; [getattr(nopg, name) for name in nopg.__all__]; "
        "extras = {'d3rlpy', 'gymnasium', 'h5py', 'matplotlib', 'minari', 'mujoco', 'pandas'}; "
        "extras |= {'onnx', 'onnxruntime', 'pyarrow', 'safetensors'}; "
        "extras |= {'stable_baselines3'}; "
        "print(sorted(extras & set(sys.modules)), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[] True"), done.stderr


def test_importing_the_package_draws_no_random_number_and_keeps_the_default_precision() -> None:
    script = (
        "import torch; before = torch.get_rng_state(), torch.get_default_dtype(); import nopg; "
        "print(torch.equal(before[0], torch.get_rng_state()), before[1] is torch.get_default_dtype())"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True True"), done.stderr


# Errors.

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]
WARNINGS = [value for value in CLASSES if issubclass(value, Warning)]
EXCEPTIONS = [value for value in CLASSES if value not in WARNINGS]


def test_every_exception_and_warning_is_listed() -> None:
    assert sorted(value.__name__ for value in CLASSES) == errors.__all__


@pytest.mark.parametrize("error", EXCEPTIONS)
def test_every_exception_is_one_of_ours(error: type[Exception]) -> None:
    assert issubclass(error, errors.NopgError)
    assert error.__doc__


@pytest.mark.parametrize("warning", WARNINGS)
def test_every_warning_is_shown_by_default_and_is_no_error_of_ours(warning: type[Warning]) -> None:
    assert issubclass(warning, UserWarning)
    assert not issubclass(warning, errors.NopgError)
    assert warning.__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.DataError, ValueError),
        (errors.ArgumentError, ValueError),
        (errors.SolverError, RuntimeError),
        (errors.BundleError, ValueError),
        (errors.ObservationError, ValueError),
        (errors.NoActionError, RuntimeError),
        (errors.ExportError, RuntimeError),
        (errors.MissingExtraError, ImportError),
        (errors.TrainingInterrupted, KeyboardInterrupt),
    ],
)
def test_every_exception_is_caught_as_the_builtin_it_specialises(
    error: type[Exception], builtin: type[BaseException]
) -> None:
    assert issubclass(error, builtin)
