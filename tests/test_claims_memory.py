"""The claims on memory: what is published, and which of it the paper's own equations give."""

from collections import Counter

from repro.claims.memory import CLAIMS, COMPARISONS, LENET5_PARAMETERS, describe
from repro.claims.verdict import Finding, verdict

BY_ID = {claim.id: claim for claim in CLAIMS}


def test_every_claim_has_what_it_is_about() -> None:
    assert BY_ID.keys() == COMPARISONS.keys()
    assert len(BY_ID) == len(CLAIMS)
    assert Counter(claim.artifact for claim in CLAIMS) == {
        "elasticzo_fig4": 20 + 3 * 6,
        "elasticzo_fig5": 12 + 3 * 8,
        "elasticzo_fig6": 8 + 3 * 3,
    }


def test_statements_tell_claims_apart() -> None:
    said = [(claim.statement, claim.basis, claim.unit) for claim in CLAIMS]
    assert len(set(said)) == len(said)


def test_observed_values_are_of_the_same_statement() -> None:
    for claim in CLAIMS:
        assert claim.relation == ("at least" if claim.id == "B-M5-half" else "equals")
        if claim.basis != "analytic":
            stem = BY_ID[claim.id.removesuffix(f"-{claim.basis}")]
            assert (claim.published, claim.digits) == (stem.published, stem.digits)
            assert claim.same_as == stem.id


def test_lenet5_has_as_many_parameters_as_its_layers() -> None:
    convolutions = 6 * 25 + 6 + 16 * 6 * 25 + 16
    assert convolutions + (784 + 1) * 120 + 121 * 84 + 85 * 10 == LENET5_PARAMETERS


def test_pairs_are_steps_of_one_batch_size() -> None:
    for comparison in COMPARISONS.values():
        for first, second in comparison.pairs:
            assert first["batch"] == second["batch"]
            assert first["network"] == second["network"]


def test_settings_in_words() -> None:
    (pair,) = COMPARISONS["B-M6-32-cls1"].pairs
    assert describe(pair[0]) == "PointNet, FP32, B = 32, N = 1024"


def test_overheads_of_all_methods_are_corrected_to_those_of_one() -> None:
    for name, published, printed in (("B-M4-overhead", 0.17, 1.7), ("B-M5-overhead", 0.26, None)):
        claim, comparison = BY_ID[name], COMPARISONS[name]
        assert (claim.published, claim.printed) == (published, printed)
        assert {first["method"] for first, _ in comparison.pairs} == {"cls1", "cls2"}
        assert {first["method"] for first, _ in comparison.corrected_pairs} == {"cls2"}
        finding = Finding(name, 2.4, "", corrected=published, correction=comparison.correction)
        assert verdict(claim, finding) == "reproduced, with a correction"


def test_one_and_a_half_is_not_twice() -> None:
    claim = BY_ID["B-M4-32-bp"]
    assert verdict(claim, Finding(claim.id, 1.5, "")) == "inconsistent in the paper"
