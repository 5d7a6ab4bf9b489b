"""Sum a large log on Spark: `python examples/summarize_on_spark.py FOLDER OUT`; needs pyspark and Java 17."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession  # type: ignore[import-not-found]

from nopg.large_logs import save_summary, summarize


def on_spark(task: Callable[[int], bytes], count: int) -> list[bytes]:
    """Return the results of tasks 0 to count − 1, each on a partition of its own."""
    spark = SparkSession.builder.config("spark.driver.memory", "4g").getOrCreate()

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers = batch.column("id")
            yield pa.record_batch({"id": numbers, "result": [task(one) for one in numbers.to_pylist()]})

    table = spark.range(0, count, 1, count).mapInArrow(run, "id long, result binary")
    found: list[bytes] = table.toArrow().sort_by("id").column("result").to_pylist()
    return found


if __name__ == "__main__":
    save_summary(summarize(sys.argv[1], workers=2, engine=on_spark), sys.argv[2])
