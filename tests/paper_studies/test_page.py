"""The page of all experiments, and the experiments that are no learning studies, from hand-made records."""

from dataclasses import replace
from pathlib import Path

import pytest

from paper_studies.study_records import learning_record
from studies.paper import EXPERIMENTS, page
from studies.records import Record, append


def other_record(experiment: str, method: str, results: dict[str, object]) -> Record:
    return replace(learning_record(experiment, method, 300, 0, 0.0), results=results)


def test_the_page_tells_claims_figures_tables_and_deviations(tmp_path: Path) -> None:
    for size in (200, 450, 800, 1250, 1800, 3200):
        for seed in range(10):
            append(learning_record("pendulum-grid", "nopg-d", size, seed, -365.0), tmp_path)
    text = page(tmp_path, "figures")
    claim = "NOPG-D: mean above the paper's"
    assert f"| [pendulum-grid](#pendulum-uniform-grid) | {claim} | default model: 6 of 6 sizes; " in text
    assert "| kept |" in text
    assert "| **not run in full** |" in text
    assert "![Pendulum, uniform grid](figures/pendulum-grid.png)" in text
    assert f"| NOPG-D, default model |{' -365±0 (10/10) |' * 6} 1 |" in text
    assert "1. " in text
    assert "`python -m studies.paper cart-pole`, not run yet" in text
    assert all(f"## {experiment.title}" in text for experiment in EXPERIMENTS.values())


def test_every_link_of_the_overview_leads_to_a_heading(tmp_path: Path) -> None:
    text = page(tmp_path, "figures")
    for experiment in EXPERIMENTS.values():
        anchor = "".join(c for c in experiment.title.lower() if c.isalnum() or c in " -").replace(" ", "-")
        assert f"(#{anchor})" in text


# Portraits


def portrait(before: float, after: float, apart: float) -> dict[str, object]:
    def part(mass: float) -> dict[str, float]:
        return {
            "upright_mass": mass,
            "upright_mass_truth": mass,
            "total_variation": apart,
            "expected_return": -180.0,
            "discounted_truth": -188.0,
        }

    return {"before": part(before), "after": part(after)}


@pytest.mark.parametrize(
    ("after", "apart", "verdicts"),
    [(0.2, 0.05, ["kept", "kept"]), (0.05, 0.4, ["missed", "missed"])],
)
def test_portraits_are_judged_by_the_upright_and_by_total_variation(
    after: float, apart: float, verdicts: list[str]
) -> None:
    study = EXPERIMENTS["pendulum-portrait"]
    records = [other_record("pendulum-portrait", "nopg-d", portrait(0.01, after, apart))]
    assert [finding.verdict for finding in study.findings(records)] == verdicts
    assert len(study.tables(records)) == 3
    assert [finding.verdict for finding in study.findings([])] == ["not run in full"] * 2
