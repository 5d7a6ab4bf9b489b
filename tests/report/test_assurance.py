"""A template of a safety case: what a run shows about hazards, what it does not, no claim of compliance."""

import json
import re
import warnings
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from typer.testing import CliRunner

import nopg
from docs.pages import code
from nopg.cli._app import app
from nopg.cli._hazards import read_hazards
from nopg.deploy import GuardedController, GuardRules, RuntimeController
from nopg.deploy import load as load_controller
from nopg.errors import ArgumentError, SupportWarning
from nopg.evaluation import Risk
from nopg.report import AssuranceCase, Hazard, assurance_case
from nopg.report._hazards import Limit, _finding, _vetoes
from nopg.report._standards import STANDARDS
from nopg.training import TrainingResult
from report.page_tags import Tags
from report.tank import tank_log

DISCOUNT = 0.7
EVIL = "<script>alert(1)</script>"
OVERFLOW = Hazard(name="overflow", region="level > 1.6", max_probability=0.5, steps=5)
HIGH = Hazard(
    name="high level", region="level > 1.3", max_time_share=0.2, consequence=EVIL, safeguard="LSH-1"
)
MIDDLE = Hazard(name=f"{EVIL} & co", region="level > 1", max_probability=0.9, max_time_share=0.1)
HAZARDS = f"""
fallback = "{EVIL}"

[[hazard]]
name = "overflow"
region = "level > 1.6"
max_probability = 0.5
steps = 5
"""


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)  # two updates need not beat the log
        config = nopg.TrainingConfig(updates=2, start="given")
        log = tank_log("level")
        exact = log.starting_at(log.starts)  # twelve starts as a sample would show no limit
        return nopg.optimize(exact, DISCOUNT, policy="deterministic", config=config)


@pytest.fixture(scope="module")
def folder(result: TrainingResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return result.save(tmp_path_factory.mktemp("assurance") / "tank")


@pytest.fixture(scope="module")
def case(result: TrainingResult, folder: Path) -> AssuranceCase:
    rules = GuardRules(dwell=17, frozen=100, deadline=2.5, last_resort=[0.25])
    guard = GuardedController(load_controller(folder), max_change=0.125, most_unknown=0.4, rules=rules)
    return assurance_case(result, [OVERFLOW, HIGH, MIDDLE], guard=guard, fallback=f"{EVIL} PI", title=EVIL)


def test_a_limit_is_kept_exceeded_or_not_shown(case: AssuranceCase) -> None:
    overflow, high, middle = case.hazards
    assert overflow.limits[0].high < 0.5  # and still nobody has seen what happens there
    assert overflow.vetoes == ("no logged state lies inside",)
    assert (overflow.finding, high.finding, middle.finding) == (
        "not shown",
        "predicted to keep",
        "predicted to exceed",
    )
    assert (high.vetoes, high.unknown is not None) == ((), True)


def test_the_evidence_is_that_of_the_evaluator(case: AssuranceCase, result: TrainingResult) -> None:
    overflow, high, middle = case.hazards
    assert overflow.risk == result.evaluator.risk(result.policy, "level > 1.6", 5)
    share, (low, top) = result.evaluator.share_inside(result.evaluation, "level > 1.3")
    unknown = result.unknown_mass
    assert unknown > 0
    assert (high.time_share, high.time_interval) == (share, (low - unknown, top + unknown))
    inside = result.data.states[:, 0] > 1.3
    assert high.risk.rows_inside == int(inside.sum())
    assert result.data.episodes is not None
    assert high.episodes_inside == len(result.data.episodes[inside].unique())
    assert high.risk.steps == middle.risk.steps == len(result.evaluation.paths.states)
    assert (overflow.policy_acts, high.policy_acts) == (None, 1.0)  # the guard does not see danger


@pytest.mark.parametrize(
    ("low", "high", "vetoes", "finding"),
    [
        (0.0, 0.1, (), "predicted to keep"),
        (0.0, 0.1, ("few episodes",), "not shown"),
        (0.0, 0.11, (), "not shown"),
        (0.11, 0.2, (), "predicted to exceed"),
        (0.11, 0.2, ("few episodes",), "predicted to exceed"),
    ],
)
def test_upper_ends_and_vetoes_decide(low: float, high: float, vetoes: tuple[str, ...], finding: str) -> None:
    assert _finding([Limit("time", 0.1, low, high)], vetoes) == finding


def test_doubts_about_risk_return_and_solves_all_veto(result: TrainingResult) -> None:
    unsolved = replace(result.certificate, converged=False)
    doubted = replace(result, certificate=unsolved)
    doubted.__dict__["evaluation"] = replace(result.evaluation, reasons=("few episodes",))
    apart = Risk(0.1, 0.9, 0.5, 5, 20, "not identifiable", ())
    assert _vetoes(doubted, apart) == (
        "few episodes",
        "the two ends of the probability of entering are more than 50 % apart",
        "a solve of the equation did not reach its tolerance",
    )


def test_the_page_claims_no_compliance_and_says_what_was_not_shown(case: AssuranceCase) -> None:
    text = unescape(re.sub(r"<style>.*?</style>", "", case.html, flags=re.DOTALL))
    assert text.index("claims no compliance") < text.index("1 Result for the hazards")
    for words in (
        "no test on hardware",
        "sensors, actuators",
        "after they have happened",
        "was not examined",
    ):
        assert words in text[text.index("5 What was not shown") : text.index("6 To be completed")]
    assert not re.search(r"\b(complies|compliant|conforms|conformant|certified)\b", text)
    for headings in STANDARDS.values():
        for one in headings:
            assert one.title in text
    assert [one.number for one in STANDARDS["Regulation (EU) 2024/1689 (AI Act), Articles 9 to 15"]] == [
        str(article) for article in range(9, 16)
    ]


def test_sections_that_standards_point_to_are_on_the_page(case: AssuranceCase) -> None:
    titles = re.findall(r"<h2>(\d) ", case.html)
    assert titles == ["1", "2", "3", "4", "5", "6", "7"]
    named = {place for rows in STANDARDS.values() for row in rows for place in row.sections.split(", ")}
    assert named - {"all", "nothing"} == {"1", "2", "3", "4", "5", "6"}


def test_the_page_shows_the_guard_and_what_is_left_to_do(case: AssuranceCase) -> None:
    assert case.guard_settings["dwell"][0] == "17 steps"
    for value in ("0.125", "0.4", "0.2", "17 steps", "2.5 s", "level 100", "0.25"):
        assert f"<td>{value}</td>" in case.html
    left = " ".join(case.open_items)
    assert "overflow: not shown" in left
    assert "overflow: state the consequence" in left
    assert "high level: state" not in left
    assert "Do not run the controller" in left
    assert "settings of the guard" not in left


def test_a_guard_that_nobody_chose_is_an_open_item(result: TrainingResult, folder: Path) -> None:
    plain = assurance_case(result, [HIGH], guard=GuardedController(load_controller(folder)))
    assert "All settings are defaults" in plain.html
    assert any("settings of the guard" in item for item in plain.open_items)
    bare = assurance_case(result, [HIGH])
    assert "No guard was given" in bare.html
    assert any("which controller acts" in item for item in bare.open_items)


def test_one_chosen_setting_is_enough_to_have_chosen(result: TrainingResult, folder: Path) -> None:
    chosen = GuardedController(load_controller(folder), max_change=[0.1])
    assert "All settings are defaults" not in assurance_case(result, [HIGH], guard=chosen).html


def test_the_guard_of_another_controller_is_refused(result: TrainingResult, folder: Path) -> None:
    saved = load_controller(folder).saved
    columns = replace(saved.columns, states=("depth",))
    other = RuntimeController(replace(saved, columns=columns))
    with pytest.raises(ArgumentError, match="which is not the controller of this run"):
        assurance_case(result, [HIGH], guard=GuardedController(other))


def test_what_a_user_wrote_stays_text_and_nothing_is_loaded(case: AssuranceCase) -> None:
    tags = Tags(case.html)
    assert not tags.stack
    assert "script" not in {tag for tag, _ in tags.found}
    assert unescape(case.html).count(EVIL) >= 5  # title, name, consequence, fallback
    policy = next(found["content"] for tag, found in tags.found if found.get("http-equiv"))
    assert "default-src 'none'" in str(policy)
    assert not [tag for tag, found in tags.found if found.get("src") or found.get("href")]


def test_the_json_has_what_the_page_says(case: AssuranceCase, tmp_path: Path) -> None:
    page, facts = case.save(tmp_path / "case.html")
    content = json.loads(facts.read_text(encoding="utf-8"))
    assert [one["finding"] for one in content["hazards"]] == [one.finding for one in case.hazards]
    assert content["sentence"] in unescape(page.read_text(encoding="utf-8"))
    assert content["guard"]["last_resort"] == "0.25"
    assert "claims no compliance" in content["notice"]
    with pytest.raises(ArgumentError, match="exist already"):
        case.save(tmp_path / "case.html")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_probability": None}, "has no limit; give max_probability or max_time_share"),
        ({"max_probability": 1.5}, "max_probability of the hazard 'overflow' is 1.5"),
        ({"max_time_share": True}, "max_time_share of the hazard 'overflow' is True"),
        ({"max_time_share": float("nan")}, "max_time_share of the hazard 'overflow' is nan"),
        ({"steps": 0}, "steps of the hazard 'overflow' is 0"),
        ({"steps": 2.5}, "steps of the hazard 'overflow' is 2.5"),
        ({"name": " "}, "the name of a hazard is ' '"),
        ({"region": 3}, "the region of a hazard is 3"),
        ({"safeguard": 3}, "safeguard of the hazard 'overflow' is 3"),
    ],
)
def test_a_hazard_says_what_is_wrong_with_it(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(words)):
        replace(OVERFLOW, **changes)  # type: ignore[arg-type]


def test_hazards_that_cannot_be_assessed_are_named(result: TrainingResult) -> None:
    with pytest.raises(ArgumentError, match=r"the hazard 'overflow': 'depth' in the region 'depth > 1'"):
        assurance_case(result, [HIGH, replace(OVERFLOW, region="depth > 1")])
    with pytest.raises(ArgumentError, match="two hazards have the same name"):
        assurance_case(result, [OVERFLOW, OVERFLOW])
    with pytest.raises(ArgumentError, match="there are no hazards"):
        assurance_case(result, [])


def run(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return done.exit_code, done.stdout, " ".join(done.stderr.split())


def test_the_command_writes_the_page_with_the_guard_of_its_file(folder: Path, tmp_path: Path) -> None:
    hazards, guard = tmp_path / "hazards.toml", tmp_path / "guard.toml"
    hazards.write_text(HAZARDS)
    guard.write_text("dwell = 23\nlast_resort = 0.25\n")
    out = tmp_path / "case.html"
    code, shown, messages = run("report", folder, "--assurance", hazards, "--guard", guard, "-o", out)
    assert code == 0, messages
    assert "overflow: not shown; probability of entering between" in shown
    assert "claims no compliance" in shown
    page = out.read_text(encoding="utf-8")
    assert "23 steps" in page
    assert "<script" not in page
    code, shown, _ = run("report", folder, "--assurance", hazards, "-o", out, "--overwrite", "--json")
    assert code == 0
    assert json.loads(shown)["hazards"][0]["finding"] == "not shown"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HAZARDS.replace("level >", "depth >"), "the hazard 'overflow': 'depth' in the region"),
        (
            HAZARDS.replace("steps", "stpes"),
            "has 'stpes', which is not known; there are consequence, max_prob",
        ),
        (
            HAZARDS.replace("fallback", "fallbak"),
            "has 'fallbak', which is not known; there are fallback, hazard",
        ),
        (HAZARDS.replace("[[hazard]]", "[hazard]"), "has no hazards; write [[hazard]]"),
        (HAZARDS.replace('region = "level > 1.6"', ""), "has no region"),
        (HAZARDS.replace("0.5", '"rarely"'), "max_probability of the hazard 'overflow' is 'rarely'"),
        (HAZARDS.replace(f'"{EVIL}"', "3"), "fallback is 3; say in words"),
        ("[[hazard]", "cannot be read as TOML"),
        ('fallback = "PI"', "has no hazards"),
    ],
)
def test_a_file_of_hazards_says_what_is_wrong_with_it(
    text: str, words: str, folder: Path, tmp_path: Path
) -> None:
    hazards = tmp_path / "hazards.toml"
    hazards.write_text(text)
    code, _, messages = run("report", folder, "--assurance", hazards, "-o", tmp_path / "case.html")
    assert (code, words in messages) == (1, True), messages
    assert not (tmp_path / "case.html").exists()


def test_the_file_of_the_guide_can_be_read(tmp_path: Path) -> None:
    (text,) = (block.text for block in code("docs/guides/report.md") if block.language == "toml")
    (tmp_path / "hazards.toml").write_text(text)
    hazards, fallback = read_hazards(tmp_path / "hazards.toml")
    assert [one.name for one in hazards] == ["Overflow", "Pump runs dry"]
    assert (hazards[0].max_probability, hazards[1].max_time_share, bool(fallback)) == (0.05, 0.01, True)


def test_options_that_do_not_go_together_are_refused(folder: Path, tmp_path: Path) -> None:
    hazards = tmp_path / "hazards.toml"
    hazards.write_text(HAZARDS)
    out = ("-o", tmp_path / "case.html")
    code, _, messages = run("report", folder, "--assurance", hazards, "--region", "level > 1", *out)
    assert (code, "leave --region" in messages) == (1, True)
    code, _, messages = run("report", folder, "--guard", hazards, *out)
    assert (code, "--guard is for --assurance" in messages) == (1, True)
