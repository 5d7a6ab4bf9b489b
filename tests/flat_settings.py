"""Settings by name, for tests that vary one of them: `optimize(data, 0.9, **configured(seed=1))`."""

from dataclasses import fields
from typing import Any

from nopg import LocalModel, PaperModel
from nopg.training import TrainingConfig


def configured(**settings: Any) -> dict[str, Any]:
    """Return the arguments of `optimize` with every setting in the config that it belongs to."""

    def taken(config: type) -> dict[str, Any]:
        return {one.name: settings.pop(one.name) for one in fields(config) if one.name in settings}

    out: dict[str, Any] = {"config": TrainingConfig(**taken(TrainingConfig))}
    model = settings.pop("model", "local")
    kind: type = PaperModel.Config if model == "paper" else LocalModel.Config
    out["model"] = kind(**own) if (own := taken(kind)) else model
    return {**out, **settings}
