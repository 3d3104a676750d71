"""The ElasticZO paper's numbers as claims, against each other and against what its text says."""

import re

import pytest

from repro.claims.claim import Claim
from repro.claims.elasticzo import CLAIMS, QUANTITIES, ROW_LABELS
from repro.claims.quantity import Accuracy, Gaps, Point
from repro.claims.verdict import is_ranking

BY_ID = {claim.id: claim for claim in CLAIMS}


def published(claim_id: str) -> float:
    return BY_ID[claim_id].published


def test_ids_are_safe_and_differ() -> None:
    assert len(BY_ID) == len(CLAIMS)
    assert all(re.fullmatch(r"B-[A-Za-z0-9_-]+", claim_id) for claim_id in BY_ID)
    assert len({claim.statement for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize(
    ("claim_id", "printed"),  # one of each row and column, copied from the paper
    [
        ("B-T1-mnist-fp32-full_zo", 89.80),
        ("B-T1-mnist-int8-cls2", 94.34),
        ("B-T1-mnist-int8_star-cls1", 95.83),
        ("B-T1-fashion_mnist-fp32-full_bp", 91.37),
        ("B-T1-fashion_mnist-int8-full_zo", 73.98),
        ("B-T1-fashion_mnist-int8_star-cls2", 77.93),
        ("B-T1-modelnet40-fp32-cls1", 73.50),
        ("B-T2-mnist-30-fp32-none", 74.41),
        ("B-T2-mnist-45-fp32-full_zo", 74.71),
        ("B-T2-fashion_mnist-30-fp32-cls2", 77.25),
        ("B-T2-fashion_mnist-45-fp32-cls1", 76.86),
        ("B-T2-mnist-30-int8-full_bp", 96.68),
        ("B-T2-mnist-45-int8-none", 60.25),
        ("B-T2-fashion_mnist-30-int8-full_zo", 37.21),
        ("B-T2-fashion_mnist-45-int8-cls2", 68.95),
        ("B-sparsity-mnist-fixed", 80.26),
        ("B-sparsity-fashion_mnist-fixed", 67.72),
    ],
)
def test_printed_digits(claim_id: str, printed: float) -> None:
    claim = BY_ID[claim_id]
    assert (claim.published, claim.unit, claim.digits) == (printed, "%", 2)


def test_accuracies_are_held_to_their_number_from_both_sides() -> None:
    relations = {BY_ID[name].relation for name, q in QUANTITIES.items() if isinstance(q, Accuracy)}
    assert relations == {"equals"}


def test_every_number_of_the_two_tables_is_a_claim() -> None:
    accuracies = [q.point for q in QUANTITIES.values() if isinstance(q, Accuracy)]
    assert sum("angle" in point for point in accuracies) == 5 * 8
    assert sum("angle" not in p and "p_zero" not in p for p in accuracies) == 4 * 7 - 2


def test_accuracies_of_table_2_are_shares_of_1024_images() -> None:
    shares = [claim for claim in CLAIMS if claim.id.startswith("B-T2") and claim.unit == "%"]
    for claim in shares:
        right = round(claim.published * 1024 / 100)
        assert round(100 * right / 1024 + 1e-9, 2) == claim.published, claim.id


def accuracy(point: Point) -> float:
    """Return the printed accuracy of a cell, found by its coordinates."""
    plain = {name: value for name, value in point.items() if name != "p_zero"}
    if point.get("p_zero") is not None:
        plain = dict(point)
    (found,) = [
        BY_ID[claim_id].published
        for claim_id, quantity in QUANTITIES.items()
        if isinstance(quantity, Accuracy) and quantity.point == plain
    ]
    return found


GAPS = [(BY_ID[name], gaps) for name, gaps in QUANTITIES.items() if isinstance(gaps, Gaps)]


@pytest.mark.parametrize(("claim", "gaps"), GAPS, ids=[claim.id for claim, _ in GAPS])
def test_gaps_in_words_are_those_of_the_tables(claim: Claim, gaps: Gaps) -> None:
    found = [accuracy(high) - accuracy(low) for low, high in gaps.pairs]
    value = max(found) if gaps.pick == "largest" else min(found)
    if is_ranking(claim):
        assert claim.published == 0
        assert value > 0
    else:  # the text rounds halves either way
        assert value == pytest.approx(claim.published, abs=0.0501)


def test_rankings_are_our_reading_and_gains_are_values() -> None:
    rankings = {claim.id for claim in CLAIMS if is_ranking(claim)}
    in_words = {"B-T2-fashion_mnist-int8-loss", "B-T1-modelnet40-fp32-above-full_zo"}
    assert all(BY_ID[name].is_stated for name in in_words)
    in_words.add("B-T1-modelnet40-fp32-above-full_bp")  # "comparable or even better"
    rankings -= in_words
    assert rankings == {claim.id for claim in CLAIMS if claim.id.endswith("-order")}
    assert len(rankings) == 15
    assert not any(BY_ID[name].is_stated for name in rankings)
    gains = [claim for claim in CLAIMS if claim.id.endswith(("-gain", "-gap"))]
    assert {claim.relation for claim in gains} == {"equals"}
    assert all(claim.unknown for claim in CLAIMS)


def test_swapped_gains_are_corrected_by_table_1() -> None:
    swapped = {claim.id: claim for claim in CLAIMS if claim.correction}
    assert len(swapped) == 4
    for claim in swapped.values():
        other = claim.id.replace("cls2", "cls_").replace("cls1", "cls2").replace("cls_", "cls1")
        assert claim.printed == swapped[other].published != claim.published


def test_orders_are_those_of_the_columns() -> None:
    usual = ["full_zo", "cls2", "cls1", "full_bp"]
    orders = {
        claim_id: [pair[1]["method"] for pair in gaps.pairs]
        for claim_id, gaps in QUANTITIES.items()
        if isinstance(gaps, Gaps) and claim_id.endswith("-order")
    }
    assert len(orders) == 7 + 8
    unusual = {claim_id for claim_id, found in orders.items() if found != usual[-len(found) :]}
    assert unusual == {
        "B-T1-mnist-int8_star-order",  # no Full BP in INT8*
        "B-T1-fashion_mnist-int8_star-order",
        "B-T1-modelnet40-fp32-order",  # Cls1 is above Full BP
        "B-T2-fashion_mnist-30-fp32-order",  # Cls2 is above Cls1
    }


def test_every_claim_was_trained_and_is_about_cells_or_signs() -> None:
    for claim in CLAIMS:
        assert claim.paper == "elasticzo"
        assert claim.basis == "trained"
        assert (claim.id in QUANTITIES) == (claim.artifact != "elasticzo_int8_sign")
    methods = {q.point["method"] for q in QUANTITIES.values() if isinstance(q, Accuracy)}
    assert methods == set(ROW_LABELS)
