"""A report on a trained policy: one file, the same numbers as JSON, nothing from elsewhere."""

import base64
import csv
import io
import json
import re
import sys
import warnings
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import nopg
from nopg.errors import ArgumentError, DataError, MissingExtraError, SupportWarning
from nopg.evaluation import Assessment, Errors, Gain, OfflineEvaluator
from nopg.evaluation._assessment import Verdict
from nopg.report import PolicyReport, policy_report, write_report
from nopg.report._fan import Fan, fans_table
from nopg.report._influential import InfluentialPart
from nopg.report._page import thinned
from nopg.report._sections import _risks
from nopg.report._trajectories import _turned
from nopg.report._wording import number, sentence
from nopg.training import TrainingResult
from report import tank
from report.page_tags import Tags

STATE, UNIT = "<script>alert(1)</script>", 'm" onload="x'
DISCOUNT = 0.7


def tank_log() -> nopg.Transitions:
    return tank.tank_log(STATE, {STATE: UNIT})


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # two updates need not beat the log
        config = nopg.TrainingConfig(updates=2, start="given")
        return nopg.optimize(tank_log(), DISCOUNT, policy="deterministic", config=config)


@pytest.fixture(scope="module")
def report(result: TrainingResult) -> PolicyReport:
    too_full = {"too <full>": lambda states: states[:, 0] > 1.6}
    return policy_report(result, regions=too_full, steps=5, title="tank & <co>")


@pytest.fixture(scope="module")
def page(report: PolicyReport) -> str:
    return report.html


def downloads(page: str) -> dict[str, list[list[str]]]:
    """Return the tables that the page holds, by file name."""
    links = [tags for tag, tags in Tags(page).found if tag == "a"]
    texts = {
        link["download"]: base64.b64decode((link["href"] or "").split("base64,")[1]).decode()
        for link in links
    }
    return {str(name): list(csv.reader(io.StringIO(text))) for name, text in texts.items()}


def test_the_page_holds_everything_and_asks_nobody(page: str) -> None:
    tags = Tags(page)
    assert not tags.stack
    assert {"html", "head", "body", "section", "figure", "table"} <= {tag for tag, _ in tags.found}
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in tags.found}
    for tag, attributes in tags.found:
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:"), tag
    text = re.sub(r"base64,[^\"]*", "", page)
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_the_page_fits_into_a_mail(page: str) -> None:
    assert len(page.encode()) <= 3_000_000


def test_what_a_user_called_a_column_stays_text(page: str) -> None:
    assert "<script" not in page
    assert "<full>" not in page
    assert 'onload="x' not in page
    assert STATE in unescape(page)
    assert "tank &amp; &lt;co&gt;" in page


def test_the_json_says_what_the_page_says(report: PolicyReport, page: str, tmp_path: Path) -> None:
    written = report.save(tmp_path / "tank.html")
    assert [path.name for path in written] == ["tank.html", "tank.json"]
    assert written[0].read_text(encoding="utf-8") == page
    facts, shown = json.loads(written[1].read_text(encoding="utf-8")), unescape(page)
    policy, gain = facts["policy"], facts["gain"]
    assert facts["sentence"] in shown
    for value in (policy["expected_return"], *policy["interval"], gain["mean"], policy["pessimistic_return"]):
        assert number(value) in shown
    assert facts["risks"]["too <full>"]["words"] in shown
    for variation in facts["sensitivity"]:
        assert number(variation["expected_return"]) in shown
    for part in facts["influential"]:
        assert number(part["influence"], 3) in shown
    for fit in facts["model"]["columns"]:
        assert fit["name"] in shown
        assert f"{fit['r_squared']:.3f}" in shown
    assert facts["training"]["equation"] in shown
    for limit in facts["limits"]:
        assert limit in shown
    assert facts["certificate"]["converged"] is True
    assert policy["notes"]
    assert [shown.count(one) for one in policy["notes"]] == [1] * len(policy["notes"])


def test_fit_evaluation_and_report_say_one_number(report: PolicyReport, result: TrainingResult) -> None:
    evaluated = OfflineEvaluator(tank_log(), DISCOUNT).assess(result.policy)
    assert report.policy.expected_return == result.expected_return == evaluated.expected_return
    assert report.policy.interval == result.interval == evaluated.interval
    assert report.policy.verdict == result.verdict == evaluated.verdict


def test_only_the_discount_is_varied_to_both_sides(report: PolicyReport, result: TrainingResult) -> None:
    base, longer, shorter = report.variations
    assert (base.discount, base.expected_return) == (DISCOUNT, result.expected_return)
    assert (base.gain, base.probability_better) == (report.gain.mean, report.gain.probability_better)
    assert (longer.discount, shorter.discount) == pytest.approx((0.85, 0.4))  # 1 − γ halved and doubled
    there = OfflineEvaluator(tank_log(), longer.discount).assess(result.policy)
    assert longer.expected_return == there.expected_return
    assert longer.expected_return < base.expected_return < shorter.expected_return  # all rewards are negative


def test_rows_are_in_the_order_of_the_log(report: PolicyReport) -> None:
    data = tank_log()
    assert torch.equal(report.data.states, data.states)
    assert torch.equal(report.data.starts, data.starts)


def test_every_row_is_in_one_part_whose_influence_is_said(
    report: PolicyReport, result: TrainingResult
) -> None:
    parts = report.influential
    assert sorted(row for part in parts for row in part.rows) == list(range(120))
    for part in parts:  # whole episodes of ten rows
        assert [10 * episode + k for episode in part.episodes for k in range(10)] == list(part.rows)
        assert part.where().startswith("episode")
    sizes = [abs(part.influence) for part in parts]
    assert sizes == sorted(sizes, reverse=True)
    again = OfflineEvaluator(tank_log(), DISCOUNT).influence(result.policy)
    assert [(part.rows, part.influence) for part in parts] == list(again)


def test_a_part_is_named_by_episodes_or_rows() -> None:
    assert InfluentialPart((4,), tuple(range(40, 50)), 1.0).where() == "episode 4"
    assert InfluentialPart((0, 1, 2, 7), (), 1.0).where() == "episodes 0 to 2, 7"
    assert InfluentialPart((), tuple(range(40, 50)), 1.0).where() == "rows 40 to 49"
    assert InfluentialPart((), (3, 5, 9, 12), 1.0).where() == "4 rows between 3 and 12"
    assert InfluentialPart((), (3,), 1.0).where() == "row 3"


def test_a_policy_of_the_papers_model_is_evaluated_on_a_local_one(tmp_path: Path) -> None:
    trained = nopg.optimize(tank_log(), DISCOUNT, model="paper", config=nopg.TrainingConfig(updates=1))
    found = policy_report(trained)
    evaluated = nopg.evaluate_offline(trained.policy, tank_log(), DISCOUNT)
    assert found.policy.expected_return == evaluated.expected_return
    assert number(trained.expected_return) in found.html
    assert found.facts["training"]["expected_return"] == trained.expected_return


def test_a_reward_that_is_known_is_not_called_badly_fitted() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        trained = nopg.optimize(
            tank_log(),
            DISCOUNT,
            model=nopg.LocalModel.Config(reward=lambda s, a, after: -((s[:, 0] - 1) ** 2)),
            config=nopg.TrainingConfig(updates=1, start="given"),
        )
    found = policy_report(trained)
    assert "known function" in found.html
    assert found.facts["model"]["reward_is_given"] is True


def test_every_picture_has_its_numbers_on_the_page(report: PolicyReport, page: str) -> None:
    tables = downloads(page)
    assert report.deviations is not None
    assert len(tables) == page.count("<img ") == len(report.maps) + len(report.trajectories) + 1
    assert len(tables["deviations.csv"]) == 1 + len(report.deviations)
    assert {"training.csv", "value.csv", "policy.csv", "visitation.csv"} < set(tables)
    head, *rows = tables["trajectories-valve.csv"]
    table = report.trajectories["valve"].table
    assert head == list(table)
    assert float(rows[0][head.index("predicted_50_percent")]) == pytest.approx(
        table["predicted_50_percent"][0], rel=1e-5
    )


def test_a_risk_is_never_a_bare_zero(report: PolicyReport, page: str) -> None:
    assert re.search(r"between <?\d[\d.]* % and [<>]?\d[\d.]* %", unescape(page))
    assert "between 0 %" not in unescape(page)


def test_a_result_that_was_saved_gives_the_same_report(
    result: TrainingResult, report: PolicyReport, tmp_path: Path
) -> None:
    again = policy_report(nopg.load(result.save(tmp_path / "run")))
    assert again.sentence == report.sentence
    for part in ("sensitivity", "data", "model", "influential", "policy", "logged"):
        assert again.facts[part] == report.facts[part]
    assert "--region" in _risks(again)  # how to ask for one


def test_a_result_saved_without_data_says_so(result: TrainingResult, tmp_path: Path) -> None:
    bare = nopg.load(result.save(tmp_path / "bare", data=False))
    with pytest.raises(DataError, match="saved without its data"):
        write_report(bare, tmp_path / "bare.html")
    assert not (tmp_path / "bare.html").exists()


def test_without_matplotlib_it_says_what_to_install(
    result: TrainingResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[figures\]"):
        policy_report(result)


def test_an_angle_is_drawn_without_jumps() -> None:
    turning = np.linspace(3.0, 9.0, 13)[:, None] + np.array([0.0, 0.1, 2 * np.pi])
    wrapped = (turning + np.pi) % (2 * np.pi) - np.pi
    assert _turned(wrapped, 2 * np.pi, 3.0) == pytest.approx(turning - [0.0, 0.0, 2 * np.pi])


def test_nothing_is_overwritten_unasked(report: PolicyReport, tmp_path: Path) -> None:
    (tmp_path / "tank.json").write_text("a contract")
    with pytest.raises(ArgumentError, match=r"tank\.json exist already"):
        report.save(tmp_path / "tank.html")
    assert (tmp_path / "tank.json").read_text() == "a contract"
    report.save(tmp_path / "tank.html", overwrite=True)
    with pytest.raises(ArgumentError, match=r"does not end in \.html"):
        report.save(tmp_path / "tank.pdf")


def test_a_fan_leaves_out_paths_that_have_ended() -> None:
    paths = np.tile(np.arange(11.0), (3, 1))
    paths[1, :5] = np.nan
    paths[2] = np.nan
    table = fans_table(Fan("predicted", "", "black", paths))
    assert table["predicted_50_percent"][:2].tolist() == [5.0, 7.5]
    assert np.isnan(table["predicted_50_percent"][2])
    few = fans_table(Fan("logged", "", "black", paths[:, :2]))
    assert list(few) == ["step", "logged_1", "logged_2"]


def test_a_table_is_thinned_to_the_numbers_that_it_may_hold() -> None:
    column = np.arange(100.0)
    kept, every = thinned({"a": column, "b": column}, 50)
    assert every == 4
    assert kept["b"].tolist() == column[::4].tolist()
    assert thinned({"a": column}, 100)[1] == 1


@pytest.mark.parametrize(
    ("low", "mean", "high", "words"),
    [
        (0.01, 0.2, 0.39, "is better than"),
        (-0.01, 0.2, 0.41, "is not significantly different from"),
        (-0.41, -0.2, 0.01, "is not significantly different from"),
        (-0.39, -0.2, -0.01, "is worse than"),
    ],
)
def test_a_policy_is_called_better_or_worse_beyond_2_5_per_cent(
    low: float, mean: float, high: float, words: str
) -> None:
    some = Assessment(1.0, (0.5, 1.5), Errors(0.2, 0.1), 0.0, 1.0, "ok", (), cast(Any, None))
    said = sentence(some, some, Gain(mean, (low, high)))
    assert said.startswith(f"By the data this policy {words} the logged behaviour:")


@pytest.mark.parametrize(
    ("low", "high", "verdict", "finding"),
    [
        (0.0, 0.009, "ok", "kept"),
        (0.0, 0.009, "weak", "not shown"),
        (0.0, 0.02, "ok", "not shown"),
        (0.02, 0.5, "weak", "exceeded"),
    ],
)
def test_a_limit_on_a_risk_is_kept_exceeded_or_not_shown(
    report: PolicyReport, low: float, high: float, verdict: Verdict, finding: str
) -> None:
    (risk,) = report.risks.values()
    risk = replace(risk, low=low, high=high, verdict=verdict)
    assert risk.finding(0.01) == finding
    limited = replace(report, risks={"too full": risk}, most=0.01)
    assert finding in _risks(limited)
    assert limited.facts["risks"]["too full"]["finding"] == finding
    assert "at most 1" in _risks(limited)


def test_a_limit_needs_regions_and_is_a_probability(result: TrainingResult) -> None:
    with pytest.raises(ArgumentError, match="give a probability, and regions"):
        policy_report(result, most=0.01)
    with pytest.raises(ArgumentError, match="most is 2"):
        policy_report(result, regions=["abs(x) > 1"], most=2.0)
