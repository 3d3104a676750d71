"""The claims on memory: what is published, and which of it the paper's own equations give."""

from collections import Counter

import pytest

from repro.claims.memory import CLAIMS, COMPARISONS, describe
from repro.claims.verdict import Finding, verdict

BY_ID = {claim.id: claim for claim in CLAIMS}


def test_every_claim_has_what_it_is_about() -> None:
    assert BY_ID.keys() == COMPARISONS.keys()
    assert len(BY_ID) == len(CLAIMS)
    assert Counter(claim.artifact for claim in CLAIMS) == {
        "elasticzo_fig4": 18 + 2 * 9,
        "elasticzo_fig5": 12 + 2 * 10,
        "elasticzo_fig6": 5 + 2 * 5,
    }


def test_statements_tell_claims_apart() -> None:
    said = [(claim.statement, claim.basis, claim.unit) for claim in CLAIMS]
    assert len(set(said)) == len(said)


def test_observed_claims_are_bounds_where_the_paper_derives_an_advantage() -> None:
    for claim in CLAIMS:
        measure = COMPARISONS[claim.id].measure
        if claim.basis == "analytic":
            assert claim.relation == ("at least" if claim.id == "B-M5-half" else "equals")
        else:
            wanted = {"ratio": "at least", "overhead": "at most"}.get(measure, "equals")
            assert claim.relation == wanted
            stem = BY_ID[claim.id.removesuffix(f"-{claim.basis}")]
            assert (claim.published, claim.digits) == (stem.published, stem.digits)


def test_pairs_are_steps_of_one_batch_size() -> None:
    for comparison in COMPARISONS.values():
        for first, second in comparison.pairs:
            assert first["batch"] == second["batch"]
            assert first["network"] == second["network"]


def test_settings_in_words() -> None:
    (pair,) = COMPARISONS["B-M6-32-cls1"].pairs
    assert describe(pair[0]) == "PointNet, FP32, B = 32, N = 1024"


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(0.0, "reproduced"), (0.0724, "reproduced"), (0.0725, "close"), (0.0755, "close"),
     (0.08, "not reproduced")],
)  # fmt: skip
def test_an_overhead_may_be_smaller(ours: float, expected: str) -> None:
    claim = BY_ID["B-M4-256-cls2-measured"]
    assert verdict(claim, Finding(claim.id, ours, "")) == expected


def test_one_and_a_half_is_not_twice() -> None:
    claim = BY_ID["B-M4-32-bp-simulated"]
    assert verdict(claim, Finding(claim.id, 1.5, "")) == "not reproduced"
    assert verdict(claim, Finding(claim.id, 2.4, "")) == "reproduced"
