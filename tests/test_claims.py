"""The verdict rule, and that claims, artifacts and findings name each other."""

import pytest

from repro.artifacts import index
from repro.claims.claim import Claim
from repro.claims.index import CLAIMS, of_artifact
from repro.claims.verdict import verdict


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
        ({}, None, "not run"),
        ({"relation": "at least", "published": 2, "digits": 1}, 7.0, "reproduced"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.92, "close"),
        ({"relation": "at least", "published": 2, "digits": 1}, 1.5,
         "contradicts the paper's own equations"),
    ],
)  # fmt: skip
def test_rule(changes: dict[str, object], ours: float | None, expected: str) -> None:
    assert verdict(claim(**changes), ours) == expected


def test_halves_round_up_as_in_print() -> None:
    assert verdict(claim(published=4.38), 4.375) == "reproduced"
    assert verdict(claim(published=2.5, digits=1), 2.45) == "reproduced"


def test_artifacts_and_claims_name_each_other() -> None:
    for slug in index.SLUGS:
        assert [claim.id for claim in of_artifact(slug)] == list(index.load(slug).claims)
    assert {claim.artifact for claim in CLAIMS.values()} <= set(index.SLUGS)


def test_every_claim_of_section_2_4_is_there() -> None:
    assert {f"A{number}" for number in range(1, 9)} <= CLAIMS.keys()
