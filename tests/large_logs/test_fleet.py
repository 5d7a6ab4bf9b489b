"""Many plants in one log: sums of each, what others add to one, and the one that stands out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

import nopg
from nopg import Transitions
from nopg.cli._app import app
from nopg.data.io import write_parquet
from nopg.errors import ArgumentError, DataError
from nopg.large_logs import Fleet, load_fleet, load_summary, save_summary, summarize, summarize_fleet
from nopg.large_logs._fleet import STANDS_OUT, _combination, robust_scores
from nopg.large_logs._log import LargeLog, ShardTask, hashed_groups
from nopg.models import LocalModel
from nopg.models._log_summary import Statistics

ROWS, NEW, ODD = 1_000, "c", "k"
# Damping and gain of the plants; what no combination of the others is like stands out.
PLANTS = {
    name: (0.1 + 0.02 * (number % 4), 0.5 + 0.05 * (number % 5)) for number, name in enumerate("abcdefghij")
} | {ODD: (0.12, -0.6)}


def rows_of(name: str, count: int, seed: int | None = None, noise: float = 0.05) -> Transitions:
    """Return random actions in episodes of 20 rows, with a little noise."""
    rng = torch.Generator().manual_seed(ord(name) if seed is None else seed)
    s = torch.rand(count, 2, generator=rng, dtype=torch.float64) * 2 - 1
    a = torch.rand(count, 1, generator=rng, dtype=torch.float64) * 2 - 1
    damping, gain = PLANTS[name]
    after = s + torch.stack([0.1 * s[:, 1], -damping * s[:, 1] + gain * a[:, 0] + 0.05 * s[:, 0] ** 2], dim=1)
    after += noise * torch.randn(count, 2, generator=rng, dtype=torch.float64)
    episodes = torch.arange(count) // 20
    return Transitions.from_arrays(s, a, -s.square().sum(dim=1), after, episodes=episodes)


def write_plant(data: Transitions, name: str, file: Path) -> None:
    write_parquet(data, file)
    table = pq.read_table(file)
    pq.write_table(table.append_column("plant", pa.array([name] * len(table))), file, row_group_size=100)


def count_of(name: str) -> int:
    return 40 if name == NEW else ROWS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fleet")
    for name in PLANTS:
        write_plant(rows_of(name, count_of(name)), name, place / f"{name}.parquet")
    return place


@pytest.fixture(scope="module")
def fleet(folder: Path) -> Fleet:
    return summarize_fleet(folder, plant="plant", workers=1, progress=False)


def assert_equal_sums(one: Statistics, other: Statistics) -> None:
    ours, theirs = one.arrays(), other.arrays()
    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        np.testing.assert_allclose(found.numpy(), theirs[name].numpy(), rtol=1e-9, atol=1e-9, err_msg=name)


def test_the_sums_of_a_plant_are_those_of_its_rows_alone(fleet: Fleet) -> None:
    steps = LocalModel(fleet.sample, groups=fleet.groups).steps
    for name in ("a", NEW):
        data = rows_of(name, count_of(name))
        assert_equal_sums(fleet.plants[name].statistics, steps.statistics(data, hashed_groups(data, 10)))
        assert fleet.plants[name].statistics.num_rows == count_of(name)


def test_the_sums_of_all_plants_are_those_of_one_log(fleet: Fleet, folder: Path) -> None:
    whole = summarize(folder, workers=1, progress=False)
    assert torch.equal(whole.sample.states, fleet.sample.states)
    assert_equal_sums(fleet.summary().statistics, whole.statistics)


def test_rows_in_another_order_and_other_files_give_the_same_sums(
    fleet: Fleet, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nopg.large_logs._log._PART_ROWS", 600)
    whole = pa.concat_tables([pq.read_table(file) for file in sorted(folder.iterdir())])
    order = np.random.default_rng(0).permutation(len(whole))
    for number, some in enumerate(np.array_split(order, 3)):
        pq.write_table(whole.take(some), tmp_path / f"{number}.parquet", row_group_size=500)
    steps = LocalModel(fleet.sample, groups=fleet.groups).steps.lean()
    log = LargeLog.of(tmp_path, plant="plant")
    found = ShardTask(log, steps, [log.parts[::-1]]).sums(0)
    assert found.keys() == fleet.plants.keys()
    for name, sums in found.items():
        assert_equal_sums(sums.statistics, fleet.plants[name].statistics)
        assert torch.equal(sums.rows, fleet.plants[name].rows)


def test_plants_that_alternate_have_next_states_of_their_own(tmp_path: Path) -> None:
    states = {"plant": [1, 2] * 50, "x": [v for k in range(50) for v in (float(k), 1_000.0 - k)]}
    table = pa.table({**states, "u": [0.1 * (k % 7) for k in range(100)], "reward": [0.0] * 100})
    pq.write_table(table, tmp_path / "log.parquet")
    found = summarize_fleet(
        tmp_path, "plant", workers=1, progress=False, states=["x"], actions=["u"], reward="reward"
    )
    assert list(found.plants) == ["1", "2"]
    assert set(found.plants["1"].rows[:, 2].tolist()) == {1.0}
    assert set(found.plants["2"].rows[:, 2].tolist()) == {-1.0}


def test_a_share_of_the_sums_is_that_of_a_sample_of_the_rows(fleet: Fleet) -> None:
    own = fleet.plants["a"].statistics
    half = own.scaled(0.5)
    assert half.num_rows == ROWS // 2
    assert_equal_sums(half + half, own)


def test_a_plant_with_few_rows_is_predicted_better_with_others(fleet: Fleet) -> None:
    pool, test, errors = fleet.pool(NEW), rows_of(NEW, 2_000, seed=7, noise=0.0), {}
    assert pool.pooled_error < pool.own_error
    assert pool.pooled_error < pool.fleet_error
    assert pool.rows > 0
    assert abs(sum(pool.weights.values()) - 1.0) < 1e-9
    assert pool.weights.get(ODD, 0.0) < 0.05
    for kind, sums in {"own": fleet.plants[NEW].statistics, "pooled": fleet.plant(NEW).statistics}.items():
        model = LocalModel(fleet.sample, groups=fleet.groups, whole=sums)
        missed = test.states + model.predict(test.states, test.actions).displacement - test.next_states
        errors[kind] = float(missed.square().mean())
    assert errors["pooled"] < 0.9 * errors["own"]


def test_a_plant_with_many_rows_and_no_other_like_it_keeps_to_its_own(fleet: Fleet) -> None:
    assert fleet.pool(ODD).rows == 0
    assert_equal_sums(fleet.plant(ODD).statistics, fleet.plants[ODD].statistics)


def test_weights_are_those_of_a_known_combination() -> None:
    rng = torch.Generator().manual_seed(0)
    predicted = torch.randn(5, 30, 2, generator=rng, dtype=torch.float64)
    truth = 0.7 * predicted[1] + 0.3 * predicted[4]
    np.testing.assert_allclose(_combination(predicted, truth), [0, 0.7, 0, 0, 0.3], atol=1e-6)


def test_the_plant_that_differs_stands_out(fleet: Fleet) -> None:
    report = fleet.report()
    assert report.index.tolist() == [*PLANTS]
    assert report.index[report["stands_out"]].tolist() == [ODD]
    assert 0 < report.loc[NEW, "others"] < 1
    assert report.loc[NEW, "most_alike"].split(", ")[0] == next(iter(fleet.pool(NEW).weights))


@pytest.mark.parametrize(("error", "odd"), [(0.13, False), (0.15, True)])
def test_a_plant_stands_out_from_a_robust_score_of_2_5_on(error: float, odd: bool) -> None:
    # Logs of the others' errors have the median log 0.1, and log 1.05 as the median distance from it.
    errors = np.array([0.1 / 1.1, 0.1 / 1.1, 0.1 / 1.05, 0.1, 0.1, 0.105, 0.11, error])
    assert (robust_scores(errors) > STANDS_OUT).tolist() == [False] * 7 + [odd]
    assert not robust_scores(errors[-7:]).any()  # among few plants none stands out


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nopg.errors.SupportWarning")
def test_a_controller_is_trained_for_one_plant_and_judged_by_its_rows(fleet: Fleet) -> None:
    summary = fleet.plant(NEW)
    assert summary.own_rows is not None
    assert len(summary.own_rows) == count_of(NEW)
    result = nopg.optimize(summary, 0.9, config=nopg.TrainingConfig(updates=2, progress=False))
    assert len(result.evaluator.model.held_out.inputs) == count_of(NEW)
    assert all(fit.r_squared > 0.5 for fit in result.column_fits)


def test_a_fleet_and_a_plant_come_back_from_disk(fleet: Fleet, tmp_path: Path) -> None:
    folder = save_summary(fleet, tmp_path / "fleet")
    again = load_fleet(folder)
    assert list(again.plants) == list(fleet.plants)
    for name, sums in fleet.plants.items():
        assert_equal_sums(again.plants[name].statistics, sums.statistics)
        assert torch.equal(again.plants[name].rows, sums.rows)
        assert torch.equal(again.plants[name].starts, sums.starts)
    with pytest.raises(DataError, match="load_fleet"):
        load_summary(folder)
    summary = fleet.plant(NEW)
    save_summary(summary, folder, overwrite=True)
    known, found = summary.own_rows, load_summary(folder).own_rows
    assert known is not None
    assert found is not None
    assert torch.equal(found.targets, known.targets)
    assert torch.equal(found.terminated, known.terminated)
    with pytest.raises(DataError, match="load_summary"):
        load_fleet(folder)


def test_the_command_line_summarizes_plants_and_trains_for_one(folder: Path, tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, [*arguments])
        assert done.exit_code == code, done.output
        return " ".join(done.output.split())

    summary, out, few = (str(tmp_path / name) for name in ("summary", "controller", "few"))
    options = ("--plant", "plant", "--workers", "1", "-o", summary)
    Path(few).mkdir()
    for name in ("a", "b", NEW):
        shutil.copy(folder / f"{name}.parquet", few)
    told = json.loads(run("summarize", few, *options, "--json"))
    assert "holds a summary already" in run("summarize", few, "-o", summary, code=1)
    assert "stands_out" in told["plants"][0]
    assert [one["plant"] for one in told["plants"]] == ["a", "b", NEW]
    assert told["rows"] == sum(one["rows"] for one in told["plants"])
    assert "there is no plant 'z'" in run("fit", summary, "--plant", "z", "-g", "0.9", "-o", out, code=1)
    brief = ("--set", "updates=1", "--policy", "deterministic")
    run("fit", summary, "--plant", NEW, "-g", "0.5", "-o", out, *brief)
    assert nopg.load(out).discount == 0.5
    assert "not a summary of several plants" in run(
        "fit", str(folder), "--plant", NEW, "-g", "0.9", "-o", str(tmp_path / "other"), code=1
    )


def test_errors_name_what_there_is(fleet: Fleet, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column 'pump' of plants; there are s0"):
        summarize_fleet(folder, "pump")
    with pytest.raises(ArgumentError, match="no plant 'z'; there are a, b"):
        fleet.plant("z")
    table = pq.read_table(folder / "a.parquet").drop_columns(["plant"])
    names = pa.array([None, *["a"] * (len(table) - 1)], type=pa.string())
    pq.write_table(table.append_column("plant", names), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="rows without a value in the column 'plant'"):
        summarize_fleet(tmp_path, "plant", workers=1, progress=False)
