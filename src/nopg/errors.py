"""The exceptions of nopg; every message says what, what we got, and what to try."""

__all__ = [
    "ArgumentError",
    "BundleError",
    "ConstraintWarning",
    "DataError",
    "ExportError",
    "MissingExtraError",
    "NoActionError",
    "NopgError",
    "ObservationError",
    "SolverError",
    "SupportWarning",
    "TrainingInterrupted",
]


class NopgError(Exception):
    """Base of every error nopg raises on purpose."""


class DataError(NopgError, ValueError):
    """The logged data cannot be used as given."""


class BundleError(NopgError, ValueError):
    """A saved controller is incomplete, changed, or not one of ours."""


class ArgumentError(NopgError, ValueError):
    """A setting is outside its range."""


class ObservationError(NopgError, ValueError):
    """An observation has another shape than the controller's, or contains NaN or infinity."""


class NoActionError(NopgError, RuntimeError):
    """A guarded controller has no action to give: stop the plant, or give it a fallback."""


class ExportError(NopgError, RuntimeError):
    """An exported controller does not act as the one it comes from; nothing was written."""


class SolverError(NopgError, RuntimeError):
    """A solver is not valid for an equation, or did not reach its tolerance."""


class TrainingInterrupted(NopgError, KeyboardInterrupt):  # noqa: N818 (nothing went wrong)
    """Ctrl-C stopped a training after an update; it can be resumed from its checkpoint.

    Whoever handles Ctrl-C as Python has it, by `except KeyboardInterrupt`, catches it too.

    Attributes:
        update: The last update that was made.
        path: Of the checkpoint.
    """

    def __init__(self, update: int, path: str) -> None:
        super().__init__(update, path)
        self.update, self.path = update, path

    def __str__(self) -> str:
        return (
            f"stopped by Ctrl-C after update {self.update}; to go on, make the same call with "
            f"checkpoint={self.path!r}"
        )


class MissingExtraError(NopgError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed; try: pip install 'nopg[{extra}]'")


class ConstraintWarning(UserWarning):
    """No controller was found that keeps the limits."""


class SupportWarning(UserWarning):
    """The data cannot back what is asked of them."""
