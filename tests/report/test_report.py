"""A report on a trained controller: one file, the same facts as JSON, nothing from elsewhere."""

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

import pytest

import nopg
from nopg.errors import ArgumentError, DataError, MissingExtraError, SupportWarning
from nopg.evaluation import Assessment, Errors, Gain, OfflineEvaluator, Risk
from nopg.evaluation._assessment import Verdict
from nopg.report import PolicyReport, policy_report
from nopg.report._page import number, sentence
from nopg.report._report import where
from nopg.training import TrainingResult
from report.page_tags import Tags
from report.reported_log import tank_log

UNIT = 'm" onload="x'
NAME = "<script>alert(1)</script> \"a\" 'b' & {{ 7 * 7 }} */ Füllstand \u202e [m³/h] 10 °C % " + "W" * 200
# Tables refuse such names of columns; titles, units and names of regions are free.
HIDDEN, SHOWN = "level\nof\tthe \ud800\x07", "level\\nof\\tthe \\ud800\\x07"


def trained(data: nopg.Transitions, *, updates: int = 2, **how: Any) -> TrainingResult:
    config = nopg.TrainingConfig(updates=updates, start="given", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # two updates need not beat the log
        return nopg.optimize(data, 0.7, **{"policy": "deterministic", **how}, config=config)


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return trained(tank_log("level", {"level": UNIT}))


@pytest.fixture(scope="module")
def report(result: TrainingResult) -> PolicyReport:
    too_full = {"too <full>": lambda states: states[:, 0] > 1.6}
    return policy_report(result, regions=too_full, steps=5, most=0.01, title="tank & <co>")


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
    assert not re.search(r"https?:|url\(|@import", text)
    assert len(page.encode()) <= 3_000_000


def test_the_closed_loop_comes_first_then_gain_differences_doubts(page: str) -> None:
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert heads[:5] == [
        "The closed loop, before and after",
        "The gain over the logged controller",
        "Where it differs",
        "Risks",
        "Doubts",
    ]
    details = page.index("<details>")
    assert page.index("Model and equation") > details


def test_whatever_a_user_called_a_column_is_harmless_and_readable(tmp_path: Path) -> None:
    data, regions = tank_log(NAME, {NAME: UNIT, "valve": HIDDEN}), {HIDDEN: lambda states: states[:, 0] > 1.6}
    written, facts = policy_report(trained(data), title=HIDDEN, regions=regions).save(tmp_path / "tank.html")
    page = written.read_text(encoding="utf-8")
    tags = Tags(page)
    assert not tags.stack
    assert "script" not in {tag for tag, _ in tags.found}
    assert not any("onload" in attributes for _, attributes in tags.found)
    shown = NAME.replace("\u202e", "\\u202e")
    assert shown in unescape(page)
    assert unescape(page).count(SHOWN) >= 4  # title twice, unit, region
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", page)
    assert NAME in json.loads(facts.read_text(encoding="utf-8"))["data"]["states"]
    assert f"{shown} after" in downloads(page)["closed-loop-1.csv"][0]


def test_the_json_says_what_the_page_says(report: PolicyReport, page: str, tmp_path: Path) -> None:
    written = report.save(tmp_path / "tank.html")
    assert [path.name for path in written] == ["tank.html", "tank.json"]
    assert written[0].read_text(encoding="utf-8") == page
    facts, shown = json.loads(written[1].read_text(encoding="utf-8")), unescape(page)
    policy, gain = facts["policy"], facts["gain"]
    assert "tank & <co>" in shown
    assert facts["sentence"] in shown
    for value in (policy["expected_return"], *policy["interval"], gain["mean"], policy["pessimistic_return"]):
        assert number(value) in shown
    assert facts["risks"]["too <full>"]["words"] in shown
    for part in facts["influential"]:
        assert number(part["influence"], 3) in shown
    for fit in facts["model"]["columns"]:
        assert f"{fit['r_squared']:.3f}" in shown
    assert facts["training"]["equation"] in shown


def test_fit_evaluation_and_report_say_one_number(report: PolicyReport, result: TrainingResult) -> None:
    evaluated = OfflineEvaluator(tank_log("level"), 0.7).assess(result.policy)
    found = report.facts["policy"]
    assert found["expected_return"] == result.expected_return == evaluated.expected_return
    assert found["interval"] == result.interval == evaluated.interval
    assert found["verdict"] == result.verdict == evaluated.verdict


def test_groups_of_episodes_are_named_with_their_influence(
    report: PolicyReport, result: TrainingResult
) -> None:
    again = OfflineEvaluator(tank_log("level"), 0.7).influence(result.policy)
    parts = report.facts["influential"]
    assert [part["influence"] for part in parts] == [influence for _, influence in again]
    assert sum(part["rows"] for part in parts) == 120
    data = tank_log("level")
    assert where(data, tuple(range(40, 50))) == "episode 4"
    assert where(data, (*range(30), *range(70, 80))) == "episodes 0, 1, 2, 7"
    rows = replace(data, episodes=None, begins=None)
    assert where(rows, (3, 5, 9, 12)) == "4 rows between 3 and 12"


def test_a_policy_of_the_papers_model_is_evaluated_on_a_local_one() -> None:
    data = tank_log("level")
    one = nopg.TrainingConfig(updates=1, progress=False)
    trained = nopg.optimize(data, 0.7, model="paper", config=one)
    found = policy_report(trained)
    evaluated = nopg.evaluate_offline(trained.policy, data, 0.7)
    assert found.facts["policy"]["expected_return"] == evaluated.expected_return
    assert number(trained.expected_return) in found.html


def test_gains_are_listed_by_name_and_a_reward_that_is_known_is_not_called_badly_fitted() -> None:
    model = nopg.LocalModel.Config(reward=lambda s, a, after: -((s[:, 0] - 1) ** 2))
    found = policy_report(trained(tank_log("level"), updates=1, policy="linear", model=model))
    assert "known function" in found.html
    assert found.facts["model"]["reward_is_given"] is True
    assert set(found.facts["gains"]) == {"offset", "k_level"}
    assert "k_level" in found.facts["laws"]["valve"]
    for value in found.facts["gains"].values():
        assert number(value) in found.html


def test_every_figure_has_its_numbers_on_the_page(report: PolicyReport, page: str) -> None:
    tables = downloads(page)
    assert len(tables) == page.count("<img ") == len(report.pictures)
    head, *rows = tables["closed-loop-1.csv"]
    table = report.pictures["closed-loop-1"].table
    assert head == list(table)
    assert float(rows[0][head.index("level after")]) == pytest.approx(table["level after"][0], rel=1e-5)


def test_a_risk_is_never_a_bare_zero_and_without_a_region_the_page_says_how(
    report: PolicyReport, result: TrainingResult, tmp_path: Path
) -> None:
    words = report.facts["risks"]["too <full>"]["words"]
    assert re.search(r"between <?\d[\d.]* % and [<>]?\d[\d.]* %", words)
    assert "between 0 %" not in words
    again = policy_report(nopg.load(result.save(tmp_path / "run")))
    assert "--region 'level > 1'" in unescape(again.html)
    for part in ("sentence", "data", "model", "influential", "policy", "logged", "differences"):
        assert again.facts[part] == report.facts[part]


def test_a_result_saved_without_data_says_so(result: TrainingResult, tmp_path: Path) -> None:
    bare = nopg.load(result.save(tmp_path / "bare", data=False))
    with pytest.raises(DataError, match="saved without its data"):
        policy_report(bare)


def test_without_matplotlib_it_says_what_to_install(
    result: TrainingResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"nopg\[figures\]"):
        policy_report(result)


def test_nothing_is_overwritten_unasked(report: PolicyReport, tmp_path: Path) -> None:
    (tmp_path / "tank.json").write_text("of something else")
    with pytest.raises(ArgumentError, match=r"tank\.json exists already"):
        report.save(tmp_path / "tank.html")
    assert (tmp_path / "tank.json").read_text() == "of something else"
    report.save(tmp_path / "tank.html", overwrite=True)
    with pytest.raises(ArgumentError, match=r"ends in \.html"):
        report.save(tmp_path / "tank.pdf")


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
    low: float, high: float, verdict: Verdict, finding: str
) -> None:
    assert Risk(low, high, low, 5, 0, verdict, ()).finding(0.01) == finding


def test_a_limit_is_on_the_page_and_needs_a_region(report: PolicyReport, result: TrainingResult) -> None:
    finding = report.facts["risks"]["too <full>"]["finding"]
    assert f"<td>{finding}</td>" in report.html
    for most, regions in ((0.01, ()), (1.5, ("level > 1",))):
        with pytest.raises(ArgumentError, match="give a probability, and regions"):
            policy_report(result, regions=regions, most=most)
