"""The verdict rule, and that claims, artifacts and findings name each other."""

import pytest

from repro.artifacts import index
from repro.claims.claim import Claim
from repro.claims.index import CLAIMS, of_artifact
from repro.claims.verdict import Finding, points_above, verdict


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
        ({}, 4.45, "contradicts the paper's own equations"),
        ({"basis": "measured"}, 4.45, "contradicted"),
        ({"basis": "simulated"}, 3.0, "contradicted"),
        ({"basis": "timed"}, 3.0, "differs on this machine"),
        ({"basis": "timed"}, 4.4415, "close"),
        ({}, None, "not run"),
        ({"relation": "at least", "published": 2, "digits": 1}, 7.0, "reproduced"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.92, "close"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.5,
         "contradicts the paper's own equations"),
    ],
)  # fmt: skip
def test_rule(changes: dict[str, object], ours: float | None, expected: str) -> None:
    assert verdict(claim(**changes), Finding("X1", ours, "")) == expected


def test_halves_round_up_as_in_print() -> None:
    assert verdict(claim(published=4.38), Finding("X1", 4.375, "")) == "reproduced"
    assert verdict(claim(published=2.5, digits=1), Finding("X1", 2.45, "")) == "reproduced"


BOUND = {"relation": "at least"}
GAIN = {"relation": "at least", "unit": "points", "published": 7.6}
ORDER = {"relation": "at least", "unit": "points", "published": 0}


@pytest.mark.parametrize(
    ("changes", "ours", "interval", "expected"),
    [
        ({}, 89.80, 0.1, "reproduced"),
        ({}, 88.80, 0.1, "reproduced"),  # a whole point, whatever binary fractions make of it
        ({}, 88.796, 0.1, "reproduced"),  # is printed as 88.80
        ({}, 88.79, 0.1, "close"),
        ({}, 90.81, 0.1, "close"),
        ({}, 86.80, 0.1, "close"),
        ({}, 89.80, None, "close"),  # one seed confirms nothing
        ({}, 86.79, None, "contradicted"),
        ({}, 86.79, 3.0, "contradicted"),
        ({}, 86.79, 3.01, "close"),  # within our interval, but seeds that disagree confirm nothing
        ({}, 70.0, 25.0, "close"),
        ({}, 70.0, 19.7, "contradicted"),
        ({}, 87.0, 3.0, "reproduced"),
        ({}, 89.0, 25.0, "close"),
        ({}, 98.0, 0.1, "contradicted"),  # far above is another experiment, too
        ({}, 92.0, 2.2, "reproduced"),
        (BOUND, 99.0, 0.1, "reproduced"),  # above a bound at any distance
        (BOUND, 88.79, 0.1, "close"),
        (BOUND, 80.0, 0.1, "contradicted"),
        (GAIN, 9.0, 2.0, "reproduced"),
        (GAIN, 7.0, 0.5, "close"),  # a difference has no band of a point beside its interval
        (GAIN, 7.0, 0.6, "reproduced"),
        (GAIN, 7.0, 3.1, "close"),
        (GAIN, 9.0, None, "close"),
        (GAIN, 4.5, 0.1, "contradicted"),
        ({"unit": "points", "published": 0.4}, -0.6, 0.5, "close"),  # the opposite sign
        (ORDER, 9.0, None, "undecided"),  # one seed settles no order
        (ORDER, 0.0, None, "undecided"),
        (ORDER, -9.0, None, "undecided"),
        (ORDER, 0.25, 1.18, "undecided"),  # whichever side of 0, the seeds do not settle it
        (ORDER, -0.25, 1.18, "undecided"),
        (ORDER, 0.5, 0.5, "undecided"),
        (ORDER, 0.51, 0.5, "reproduced"),
        (ORDER, 0.004, 0.003, "reproduced"),  # a sign is taken before rounding
        (ORDER, 0.0, 0.0, "undecided"),
        (ORDER, -0.5, 0.4, "contradicted"),
        (ORDER, -0.004, 0.003, "contradicted"),  # a wrong order is none by a small gap
        (ORDER, -0.5, 0.5, "undecided"),
        (ORDER, None, None, "undecided"),  # runs that cannot tell
        (GAIN, None, None, "undecided"),
    ],
)
def test_rule_of_what_was_trained(
    changes: dict[str, object], ours: float | None, interval: float | None, expected: str
) -> None:
    trained = claim(**{"basis": "trained", "unit": "%", "published": 89.80} | changes)
    finding = Finding("X1", ours, "", n_seeds=3, interval=interval, profile="paper")
    assert verdict(trained, finding) == expected


@pytest.mark.parametrize(
    ("changes", "ours", "above"),
    [
        ({"unit": "%"}, 98.0, 8.2),
        ({"unit": "%"}, 89.8049, 0.0),  # is printed as the published number
        ({"unit": "%"}, 80.0, 0.0),
        ({"unit": "%", "relation": "at least"}, 98.0, 0.0),  # above a bound is what it claims
        ({"unit": "points"}, 98.0, 0.0),
        ({"unit": "%", "basis": "measured"}, 98.0, 0.0),
        ({"unit": "%"}, None, 0.0),
    ],
)
def test_points_above_the_published_accuracy(
    changes: dict[str, object], ours: float | None, above: float
) -> None:
    trained = claim(**{"basis": "trained", "published": 89.80} | changes)
    assert points_above(trained, Finding("X1", ours, "")) == above


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
