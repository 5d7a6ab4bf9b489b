"""Sums of the parts of a log as tasks of a Ray cluster, which repeats those that are lost."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from nopg.data.io._files import extra
from nopg.large_logs._log import LargeLog, LogPart
from nopg.large_logs._sums import PassSums, sum_parts
from nopg.models._one_step import OneStep

__all__ = ["sum_on_ray"]


def sum_on_ray(log: LargeLog, steps: OneStep, shards: Sequence[Sequence[LogPart]]) -> list[PassSums]:
    """Return the sums of each share of the parts; the cluster has to see the files.

    Args:
        log: The log.
        steps: Model of a sample.
        shards: Shares of the parts, one task for each.
    """
    ray, data = extra("ray"), extra("ray.data")
    ray.init(ignore_reinit_error=True, log_to_driver=False)
    model = ray.put((log, steps))

    def summed(row: Mapping[str, Any]) -> dict[str, Any]:
        torch.set_num_threads(1)
        given, one = ray.get(model)
        return {"number": row["number"], "sums": pickle.dumps(sum_parts(given, one, shards[row["number"]]))}

    numbers = data.from_items(
        [{"number": number} for number in range(len(shards))], override_num_blocks=len(shards)
    )
    found = {row["number"]: row["sums"] for row in numbers.map(summed).take_all()}
    return [pickle.loads(found[number]) for number in range(len(shards))]
