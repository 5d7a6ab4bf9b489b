"""One pass over a log on disk gives the model that its rows give in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch

import nopg
from nopg import Transitions
from nopg.data.io import write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.large_logs import LogSummary, load_summary, save_summary, summarize
from nopg.large_logs._log import LargeLog, hashed_groups, joined
from nopg.models import LocalModel

ROWS = 3_000


def log(seed: int = 0, rows: int = ROWS) -> Transitions:
    """Return random actions on a plant that is not linear, in episodes of 50 rows."""
    rng = torch.Generator().manual_seed(seed)
    s = torch.rand(rows, 2, generator=rng, dtype=torch.float64) * 2 - 1
    a = torch.rand(rows, 1, generator=rng, dtype=torch.float64) * 2 - 1
    after = s + 0.1 * torch.stack([s[:, 1], torch.sin(3.0 * s[:, 0]) + a[:, 0]], dim=1)
    return Transitions.from_arrays(
        s, a, -(s.square().sum(dim=1)), after, episodes=torch.arange(rows) // 50, bounds={"a0": (-1.0, 1.0)}
    )


@pytest.fixture(scope="module")
def whole() -> Transitions:
    return log()


@pytest.fixture(scope="module")
def files(whole: Transitions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    for number, rows in enumerate(torch.arange(ROWS).split(1_250)):
        file = folder / f"part-{number}.parquet"
        write_parquet(whole.take(rows), file)
        pq.write_table(pq.read_table(file), file, row_group_size=100)
    return folder


@pytest.fixture(scope="module")
def sample(whole: Transitions) -> tuple[Transitions, torch.Tensor]:
    some = whole.take(torch.arange(600))
    return some, hashed_groups(some, 10)


def stepped(model: LocalModel, data: Transitions) -> torch.Tensor:
    some = data.take(torch.arange(ROWS - 300, ROWS))
    found = [model.predict(some.states, some.actions, torch.full((300,), part)) for part in (0, 1, 2)]
    return torch.cat([torch.cat([one.displacement, one.reward[:, None], one.noise], dim=1) for one in found])


@pytest.mark.parametrize("sizes", [[1, 1_499, 1_500], [2_000, 500, 500]])
@pytest.mark.parametrize("order", [1, -1])
def test_any_split_in_any_order_gives_the_model_of_all_rows(
    whole: Transitions, sample: tuple[Transitions, torch.Tensor], sizes: list[int], order: int
) -> None:
    model = LocalModel(sample[0], groups=sample[1])
    at_once = model.steps.statistics(whole, hashed_groups(whole, 10))
    parts = [whole.take(rows) for rows in torch.arange(ROWS).split(sizes)][::order]
    total, *others = [model.steps.statistics(part, hashed_groups(part, 10)) for part in parts]
    for other in others:
        total = total + other
    assert total.num_rows == ROWS
    found = []
    for one in (at_once, total):
        model.steps.set_statistics(one)
        found.append(stepped(model, whole))
    assert float((found[0] - found[1]).abs().max()) < 1e-9


def test_a_sample_that_is_the_whole_log_gives_the_model_in_memory(whole: Transitions) -> None:
    groups = hashed_groups(whole, 10)
    model = LocalModel(whole, groups=groups)
    before = stepped(model, whole)
    model.steps.set_statistics(model.steps.statistics(whole, groups))
    assert float((stepped(model, whole) - before).abs().max()) < 1e-9


def test_all_rows_predict_better_than_the_sample(
    whole: Transitions, sample: tuple[Transitions, torch.Tensor]
) -> None:
    model, test, errors = LocalModel(sample[0], groups=sample[1]), log(1, 500), []
    for one in (None, model.steps.statistics(whole, hashed_groups(whole, 10))):
        if one is not None:
            model.steps.set_statistics(one)
        found = model.predict(test.states, test.actions)
        errors.append(float((test.states + found.displacement - test.next_states).square().mean()))
    assert errors[1] < 0.5 * errors[0]


def test_files_are_read_in_parts_and_nothing_is_lost(
    files: Path, whole: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.large_logs._log._PART_ROWS", 350)
    found = LargeLog.of(files)
    assert found.num_rows == ROWS
    assert len(found.parts) == 4 + 4 + 2
    rows = joined([found.read(part)[""] for part in found.parts])
    assert torch.equal(rows.states, whole.states)


def test_only_true_beginnings_of_episodes_are_starts(
    files: Path, whole: Transitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.large_logs._log._PART_ROWS", 130)
    found = LargeLog.of(files)
    starts = torch.cat([found.starts(found.read(part)[""], part) for part in found.parts])
    first = whole.states[::50]
    assert all(bool((one == first).all(dim=1).any()) for one in starts)
    assert len(starts) > 0.8 * len(first)  # those that begin with a part cannot be told


@pytest.fixture(scope="module")
def summary(files: Path) -> LogSummary:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nopg.large_logs._log._PART_ROWS", 700)
        return summarize(files, workers=1, progress=False)


def test_two_processes_give_the_summary_of_one(
    files: Path, summary: LogSummary, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.large_logs._log._PART_ROWS", 700)
    found = summarize(files, workers=2)
    assert "3,000 of 3,000 rows (100%)" in capsys.readouterr().err
    assert "3000 rows" in repr(found)
    assert torch.equal(found.sample.states, summary.sample.states)
    assert torch.equal(found.sample.starts, summary.sample.starts)
    for (_, one), (_, other) in zip(found.statistics.blocks, summary.statistics.blocks, strict=True):
        assert one is None or other is None or torch.allclose(one.grams, other.grams, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_a_controller_is_trained_from_a_summary(summary: LogSummary, tmp_path: Path) -> None:
    config = nopg.TrainingConfig(updates=2, progress=False)
    result = nopg.optimize(summary, 0.5, policy="deterministic", config=config)
    assert result.expected_return > result.evaluator.logged().expected_return
    with pytest.raises(ArgumentError, match="data=False"):
        result.save(tmp_path / "run")
    result.save(tmp_path / "run", data=False)
    assert (tmp_path / "run").exists()


def test_what_a_summary_cannot_do_is_refused(files: Path, summary: LogSummary) -> None:
    with pytest.raises(ArgumentError, match="no other model"):
        nopg.optimize(summary, 0.9, model="paper")
    with pytest.raises(ArgumentError, match="structures"):
        nopg.optimize(summary, 0.9, policy="linear")
    with pytest.raises(ArgumentError, match="engine"):
        summarize(files, engine="abacus")  # type: ignore[arg-type]


def test_a_summary_comes_back_from_disk(summary: LogSummary, tmp_path: Path) -> None:
    folder = save_summary(summary, tmp_path / "summary")
    again = load_summary(folder)
    assert torch.equal(again.sample.starts, summary.sample.starts)
    before, after = summary.statistics.arrays(), again.statistics.arrays()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(ArgumentError, match="already"):
        save_summary(summary, folder)
    (folder / "sums.safetensors").write_bytes(b"torn")
    with pytest.raises(DataError, match="cannot be read"):
        load_summary(folder)
    (folder / "sums.safetensors").unlink()
    with pytest.raises(DataError, match="missing"):
        load_summary(folder)


def test_sums_of_another_sample_are_refused(summary: LogSummary, tmp_path: Path) -> None:
    folder = save_summary(summary, tmp_path / "summary")
    write_parquet(log(3, len(summary.sample)).starting_at([0.0, 0.0]), folder / "sample.parquet")
    with pytest.raises(DataError, match="summarize"):
        load_summary(folder)
