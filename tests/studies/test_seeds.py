"""Plants and seeds on the command line of a study."""

import pytest

from studies.seeds import plants_and_seeds, seeds_of

PLANTS = {"furuta": 1, "arm": 2}


def test_spans_and_single_seeds_are_read() -> None:
    assert seeds_of("0,2,5-7") == (0, 2, 5, 6, 7)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], [(1, 0), (2, 0)]),
        (["--logs", "3-4"], [(1, 3), (2, 3), (1, 4), (2, 4)]),
        (["--plant", "arm"], [(2, 0)]),
    ],
)
def test_plants_take_turns_log_by_log(
    words: list[str], wanted: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["study", *words])
    assert list(plants_and_seeds("study", None, PLANTS, logs="0")) == wanted
