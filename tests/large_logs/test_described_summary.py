"""What one pass tells of the quality of a log: ranges, medians and repairs of all rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import nopg
from nopg import Transitions
from nopg.cli._app import app
from nopg.data.io import write_parquet
from nopg.envs import Pendulum, collect_uniform
from nopg.inspect import Grade
from nopg.large_logs import load_summary, save_summary, summarize
from nopg.models._log_summary import ColumnCounts


def rows(seed: int, count: int = 3_000) -> Transitions:
    return collect_uniform(Pendulum(), count, seed=seed)


def test_counts_add_up_in_any_order_and_give_quantiles() -> None:
    parts = [rows(seed) for seed in range(3)]
    every = torch.cat([torch.cat([one.states, one.actions, one.rewards[:, None]], dim=1) for one in parts])
    empty = ColumnCounts.between(*every[:3_000].aminmax(dim=0))
    there = empty.with_rows(parts[0]).with_rows(parts[1]).with_rows(parts[2])
    back = empty.with_rows(parts[2]) + (empty.with_rows(parts[1]) + empty.with_rows(parts[0]))
    assert torch.equal(there.counts, back.counts)
    assert there.counts.sum(dim=1).tolist() == [9_000] * 4
    assert torch.equal(torch.stack([there.low, there.high]), torch.stack(every.aminmax(dim=0)))
    width = (there.edges[:, -1] - there.edges[:, 0]) / 1_000
    for share in (0.01, 0.5, 0.9):
        apart = (there.quantile(share) - every.quantile(share, dim=0)).abs()
        assert bool((apart <= 2 * width).all())


def test_a_summary_is_described_by_all_rows(tmp_path: Path) -> None:
    parts = [rows(seed, 300) for seed in range(3)]
    for number, one in enumerate(parts):
        write_parquet(one, tmp_path / f"{number}.parquet")
    summary = summarize(tmp_path, workers=1, progress=False)
    found = nopg.describe(summary)
    assert (found.num_rows, found.sampled) == (900, len(summary.sample))
    angle = torch.cat([one.states[:, 0] for one in parts])
    assert (found.columns[0].low, found.columns[0].high) == tuple(map(float, angle.aminmax()))
    again = nopg.describe(load_summary(save_summary(summary, tmp_path / "summary")))
    assert str(again) == str(found)
    told = CliRunner().invoke(app, ["describe", str(tmp_path / "summary")])
    assert "900 transitions" in told.output


def test_a_code_that_the_sample_misses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nopg.large_logs._summarize._SAMPLE_ROWS", 300)
    data = rows(0)
    write_parquet(data, tmp_path / "log.parquet")
    summary = summarize(tmp_path, workers=1, progress=False)
    plain = nopg.describe(summary).finding("sample")
    assert plain is not None
    assert plain.grade == Grade.OK
    seen = {tuple(one) for one in summary.sample.states.tolist()}
    unseen = next(k for k, state in enumerate(data.states.tolist()) if tuple(state) not in seen and k > 5)
    rewards = data.rewards.clone()
    rewards[unseen] = -9_999.0
    write_parquet(replace(data, rewards=rewards), tmp_path / "log.parquet")
    found = nopg.describe(summarize(tmp_path, workers=1, progress=False)).finding("sample")
    assert found is not None
    assert found.grade == Grade.WARNING
    assert "reward reaches from -9999" in found.what


def test_repairs_of_all_parts_are_counted(tmp_path: Path) -> None:
    count, missing = 600, {50, 51, 300, 590}
    level = [None if k in missing else 1.0 + 0.5 * ((7 * k) % 11) for k in range(count)]
    valve = [float((3 * k) % 5) for k in range(count)]
    columns = {
        "t": list(range(count)),
        "level": level,
        "valve": valve,
        "reward": [float(-k % 7) for k in range(count)],
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet", row_group_size=200)
    summary = summarize(
        tmp_path / "log.parquet",
        workers=1,
        progress=False,
        states=["level"],
        actions=["valve"],
        reward="reward",
        time="t",
        missing="hold",
    )
    assert summary.sample.repairs.counts["level: missing, held"] == 4
    assert nopg.describe(summary).repairs == summary.sample.repairs
