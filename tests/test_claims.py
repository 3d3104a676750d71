"""The verdict rule, and that claims, artifacts and findings name each other."""

from dataclasses import replace

import pytest

from repro.artifacts import index
from repro.claims.claim import Claim
from repro.claims.index import CLAIMS, of_artifact
from repro.claims.verdict import Finding, best_epoch_verdict, verdict


def claim(**changes: object) -> Claim:
    values: dict[str, object] = {
        "id": "X1",
        "paper": "mezo",
        "section": "1",
        "artifact": "mezo_fig3",
        "statement": "a number",
        "published": 4.23,
        "unit": "x",
        "basis": "analytic",
        "digits": 2,
    }
    return Claim(**values | changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "ours", "expected"),
    [
        ({}, 4.2349, "reproduced"),
        ({}, 4.225, "reproduced"),
        ({}, 4.2351, "close"),
        ({}, 4.4415, "close"),
        ({}, 4.45, "inconsistent in the paper"),
        ({"basis": "measured"}, 4.45, "not reproduced"),
        ({"basis": "simulated"}, 3.0, "not reproduced"),
        ({"basis": "timed"}, 3.0, "not comparable"),
        ({"basis": "timed"}, 4.23, "not comparable"),
        ({"basis": "timed"}, None, "not run"),
        ({}, None, "not run"),
        ({"relation": "at least", "published": 2, "digits": 1}, 7.0, "reproduced"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.92, "close"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.5, "inconsistent in the paper"),
    ],
)
def test_rule(changes: dict[str, object], ours: float | None, expected: str) -> None:
    assert verdict(claim(**changes), Finding("X1", ours, "")) == expected


def test_halves_round_up_as_in_print() -> None:
    assert verdict(claim(published=4.38), Finding("X1", 4.375, "")) == "reproduced"
    assert verdict(claim(published=2.5, digits=1), Finding("X1", 2.45, "")) == "reproduced"


@pytest.mark.parametrize(
    ("ours", "corrected", "expected"),
    [
        (4.23, 9.0, "reproduced"),  # nothing needs to be corrected
        (4.30, 4.2324, "reproduced, with a correction"),
        (9.00, 4.2324, "reproduced, with a correction"),
        (4.30, 4.30, "close"),
        (9.00, 4.30, "inconsistent in the paper"),
    ],
)
def test_a_named_slip_is_corrected(ours: float, corrected: float, expected: str) -> None:
    finding = Finding("X1", ours, "", corrected=corrected, correction="a slip")
    assert verdict(claim(), finding) == expected


@pytest.mark.parametrize(
    ("plausible", "expected"),
    [
        ((2.0, 9.0), "not decidable"),
        ((9.0, 11.0), "inconsistent in the paper"),
        ((4.2349, 9.0), "not decidable"),  # the end rounds to the printed digits
        ((4.2351, 9.0), "inconsistent in the paper"),
        (None, "undecided"),
    ],
)
def test_an_open_setting_of_an_equation(
    plausible: tuple[float, float] | None, expected: str
) -> None:
    finding = Finding("X1", 10.0, "", plausible=plausible)
    assert verdict(claim(unknown=("batch size",)), finding) == expected
    assert verdict(claim(), finding) == "inconsistent in the paper"


@pytest.mark.parametrize(
    ("ours", "plausible", "expected"),
    [
        (2.0, (1.8, 2.0), "not decidable"),  # it holds by one reading and not by another
        (1.8, (1.8, 4.6), "not decidable"),
        (2.1, (2.0, 4.6), "reproduced"),
        (1.5, (1.2, 1.8), "inconsistent in the paper"),
        (2.1, None, "reproduced"),
    ],
)
def test_a_bound_holds_for_all_values_of_an_open_setting_or_for_none(
    ours: float, plausible: tuple[float, float] | None, expected: str
) -> None:
    bound = claim(relation="at least", published=2, unknown=("batch size",))
    assert verdict(bound, Finding("X1", ours, "", plausible=plausible)) == expected


def test_a_number_that_was_corrected_is_never_plainly_reproduced() -> None:
    corrected = claim(printed=6.0, correction="two numbers are swapped")
    assert verdict(corrected, Finding("X1", 4.23, "")) == "reproduced, with a correction"
    assert verdict(corrected, Finding("X1", 6.0, "")) == "inconsistent in the paper"


OPEN = {"unknown": ("learning rate",)}
BOUND = {"relation": "at least"}
GAIN = {"unit": "points", "published": 7.6}
RANKING = {"relation": "at least", "unit": "points", "published": 0}


@pytest.mark.parametrize(
    ("changes", "ours", "spread", "plausible", "expected"),
    [
        ({}, 89.80, 0.5, None, "reproduced"),
        ({}, 88.80, 1.1, None, "reproduced"),
        ({}, 88.80, 0.9, None, "close"),
        ({}, 86.80, 0.1, None, "close"),
        ({}, 86.79, 0.1, None, "not reproduced"),
        ({}, 86.79, 3.02, None, "undecided"),  # holds it, but would hold most results
        ({}, 89.80, 3.01, None, "undecided"),
        ({}, 80.00, 3.01, None, "not reproduced"),
        ({}, 98.00, 0.1, None, "not reproduced"),  # far above is another experiment, too
        ({}, 89.80, None, None, "undecided"),  # one seed confirms nothing
        ({}, 80.00, None, None, "undecided"),  # nor does it refute
        (BOUND, 99.00, 0.1, None, "reproduced"),
        (BOUND, 80.00, 0.1, None, "not reproduced"),
        (BOUND, 95.00, 4.0, None, "reproduced"),  # whatever lies in the interval holds it
        (BOUND, 92.00, 4.0, None, "undecided"),
        (BOUND, 90.00, 1.0, None, "undecided"),  # a further run may be on either side
        (BOUND, 89.00, 1.0, None, "undecided"),
        (BOUND, 92.00, None, None, "undecided"),  # one seed holds it, and confirms nothing
        (GAIN, 9.00, 2.0, None, "reproduced"),
        (GAIN, 9.00, 1.0, None, "not reproduced"),  # no band of points for a difference
        (GAIN, 7.60, 3.5, None, "undecided"),
        (GAIN, 9.00, None, None, "undecided"),
        (OPEN, 80.00, 1.0, None, "undecided"),  # never "not reproduced" with open settings
        (OPEN, 80.00, 1.0, (79.0, 81.0), "undecided"),
        (OPEN, 80.00, 1.0, (79.0, 92.0), "not decidable"),
        (OPEN, 80.00, 1.0, (79.0, 88.9), "undecided"),  # all means are below
        (OPEN, 95.00, 1.0, (85.0, 86.0), "not decidable"),
        (OPEN, 95.00, 1.0, (90.5, 96.0), "undecided"),
        (OPEN, 89.80, 1.0, (70.0, 99.0), "reproduced"),  # what agrees is not undone
    ],
)
def test_rule_of_trained_values(
    changes: dict[str, object],
    ours: float,
    spread: float | None,
    plausible: tuple[float, float] | None,
    expected: str,
) -> None:
    trained = claim(**{"basis": "trained", "unit": "%", "published": 89.80} | changes)
    finding = Finding("X1", ours, "", 5, None, "paper", prediction=spread, plausible=plausible)
    assert verdict(trained, finding) == expected


@pytest.mark.parametrize(
    ("gap", "interval", "changes", "expected"),
    [
        (9.0, None, {}, "undecided"),  # one seed settles no ranking
        (-9.0, None, {}, "undecided"),
        (0.25, 1.18, {}, "undecided"),
        (0.5, 0.5, {}, "undecided"),
        (0.51, 0.5, {}, "reproduced"),
        (0.004, 0.003, {}, "reproduced"),  # a sign is taken before rounding
        (-0.5, 0.4, {}, "not reproduced"),
        (-0.5, 0.4, OPEN, "undecided"),
        (None, None, {}, "undecided"),  # runs that cannot tell
        (9.0, 1.0, {"inconclusive": "BP learnt nothing"}, "undecided"),
    ],
)
def test_rule_of_rankings(
    gap: float | None, interval: float | None, changes: dict[str, object], expected: str
) -> None:
    why = str(changes.get("inconclusive", ""))
    settings = {name: value for name, value in changes.items() if name != "inconclusive"}
    ranking = claim(**{"basis": "trained", **RANKING} | settings)
    finding = Finding("X1", gap, "", 3, interval, "paper", inconclusive=why)
    assert verdict(ranking, finding) == expected


def test_the_best_epoch_may_give_another_verdict() -> None:
    trained = claim(basis="trained", unit="%", published=89.80)
    finding = Finding("X1", 86.0, "", 5, None, "paper", prediction=1.0, best=89.5)
    finding = replace(finding, best_prediction=1.0)
    assert verdict(trained, finding) == "not reproduced"
    assert best_epoch_verdict(trained, finding) == "reproduced"


def test_the_best_epoch_does_not_judge_a_ranking() -> None:
    ranking = claim(**{"basis": "trained", **RANKING})
    finding = Finding("X1", 0.51, "", 3, 0.5, "paper", best=-5.0, best_prediction=0.1)
    assert best_epoch_verdict(ranking, finding) == verdict(ranking, finding) == "reproduced"


@pytest.mark.parametrize("profile", ["quick", "smoke", "custom", None])
def test_only_the_paper_profile_judges_what_was_trained(profile: str | None) -> None:
    trained = claim(basis="trained", unit="%", published=89.80)
    assert verdict(trained, Finding("X1", 89.80, "", profile=profile)) == "not run"


def test_artifacts_and_claims_name_each_other() -> None:
    for slug in index.SLUGS:
        assert [claim.id for claim in of_artifact(slug)] == list(index.load(slug).claims)
    assert {claim.artifact for claim in CLAIMS.values()} <= set(index.SLUGS)


def test_every_claim_of_section_2_4_is_there() -> None:
    assert {f"A{number}" for number in range(1, 9)} <= CLAIMS.keys()


def test_every_statement_is_quoted_and_every_other_basis_names_its_statement() -> None:
    for claim in CLAIMS.values():
        if claim.same_as:
            assert not CLAIMS[claim.same_as].same_as
            assert CLAIMS[claim.same_as].unit == claim.unit
        else:
            assert claim.quote, claim.id
