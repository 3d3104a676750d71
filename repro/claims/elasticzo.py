"""The ElasticZO paper's claims on accuracy (Sugiura, Matsutani 2025, arXiv 2501.04287).

``QUANTITIES`` maps each claim to its cells. Their points have these coordinates:

- ``elasticzo_table1``: ``dataset``, ``precision``, ``method``;
- ``elasticzo_table2``: also ``angle`` in degrees; ``dataset`` is the set before rotation;
- ``elasticzo_sparsity``: as in Table 1, and ``p_zero``, null for the paper's schedule.

A stand-in for ModelNet40 has its own ``dataset``, so it answers none of these claims. Section 5.2
swaps the INT8 gains of the two methods; the claims have the gains of its Table 1, as a named
correction. In words the paper compares only the methods on ModelNet40. The order of a whole column
is our reading of the table, and is marked so.

Words without a number or an order, such as "close to" or "a comparable level", have no claim.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from repro.claims.claim import Claim
from repro.claims.quantity import Accuracy, Gaps, Point, Quantity, order
from repro.core.names import IMAGE_SETS, METHOD_LABELS, ZEROTH_ORDER

CLOUD_EPOCHS = (50, 100, 200)
"""Plausible numbers of epochs on ModelNet40, which our copy of the paper has lost."""
ROW_LABELS: dict[str, str] = {"none": "Without fine-tuning", **METHOD_LABELS}
"""Rows of the tables, under the paper's names."""
PRECISIONS = {"fp32": "FP32", "int8": "INT8", "int8_star": "INT8*"}
"""INT8* takes the sign of the projected gradient in integers, INT8 in floating point."""
DATASETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "modelnet40": "ModelNet40"}

_ELASTIC = ("cls2", "cls1")

_COLUMNS1: tuple[Point, ...] = (
    *({"dataset": dataset, "precision": p} for dataset in IMAGE_SETS for p in PRECISIONS),
    {"dataset": "modelnet40", "precision": "fp32"},
)
_TABLE1 = {
    "full_zo": "89.80 89.78 88.92  77.09 73.98 71.02  32.05",
    "cls2": "   94.85 94.34 93.92  82.28 80.33 77.93  70.38",
    "cls1": "   97.53 97.34 95.83  86.60 84.66 81.60  73.50",
    "full_bp": "99.10 98.77   -    91.37 90.40   -    71.60",
}
_COLUMNS2: tuple[Point, ...] = tuple(
    {"dataset": dataset, "angle": angle, "precision": p}
    for p in ("fp32", "int8")
    for dataset in IMAGE_SETS
    for angle in (30, 45)
)
_TABLE2 = {
    "none": "   74.41 46.58  39.65 23.34  84.08 60.25  28.13 13.77",
    "full_zo": "85.94 74.71  61.33 59.08  85.94 64.36  37.21 22.95",
    "cls2": "   90.04 86.23  77.25 74.51  93.07 87.99  69.43 68.95",
    "cls1": "   93.16 91.60  75.98 76.86  93.46 91.80  76.07 75.68",
    "full_bp": "94.82 93.85  80.37 79.49  96.68 95.21  80.08 80.86",
}
# The gains that section 5.2 states for MNIST and Fashion-MNIST: points between cells of Table 1.
_GAINS = {
    ("fp32", "cls2"): ("5.1", "5.2"),
    ("fp32", "cls1"): ("7.7", "9.5"),
    ("int8", "cls2"): ("4.6", "6.4"),
    ("int8", "cls1"): ("7.6", "10.7"),
}
_GAIN_SECTIONS = {
    **dict.fromkeys(("5.2", "9.5"), "abstract, 1, 5.2, 6"),
    **dict.fromkeys(("6.4", "10.7"), "5.2, 6"),
}
"""Where the paper gives a gain, if not in section 5.2 alone: as an end of ElasticZO's range."""
_GAPS_TO_BP = {
    ("fp32", "full_zo"): ("9.3", "14.3"),
    ("fp32", "cls2"): ("4.3", "9.1"),
    ("fp32", "cls1"): ("1.6", "4.8"),
    ("int8", "full_zo"): ("9.0", "16.4"),
    ("int8", "cls2"): ("4.4", "10.1"),
    ("int8", "cls1"): ("1.4", "5.7"),
}
_INT8_MINUS_FP32 = ("-0.5", "-2.0")
_INT8S_DROPS = {"smallest": ("0.4", "2.4"), "largest": ("1.5", "3.1")}
# The gains that it states for Table 2 in FP32: points above the accuracy without fine-tuning.
_TUNING_GAINS = {
    ("mnist", 30): {"cls2": "15.6", "cls1": "18.8"},
    ("mnist", 45): {"cls2": "39.7", "cls1": "45.0"},
    ("fashion_mnist", 30): {"cls2": "37.6", "cls1": "36.3"},
    ("fashion_mnist", 45): {"cls2": "51.2", "cls1": "53.5"},
}
_FIXED_SPARSITY = ("80.26", "67.72")
_SCHEDULE_GAINS = ("9.5", "6.3")
_SPARSITY_QUOTE = (
    "fixed to the initial value (0.33) throughout the entire training process, Full ZO yields 9.5% "
    "and 6.3% lower accuracy on MNIST and Fashion-MNIST (80.26%/89.78% vs. 67.72%/73.98%)"
)
_GAIN_QUOTES = {
    "fp32": "ZO-Feat-Cls2 and ZO-Feat-Cls1 improve the accuracy by 5.1-5.2% and 7.7-9.5%",
    "int8": "ZO-Feat-Cls2 and ZO-Feat-Cls1 produce 7.6-10.7% and 4.6-6.4% higher accuracy than "
    "Full ZO",
}
_SWAPPED = (
    "the sentence swaps the two methods: by the paper's Table 1, 4.6 and 6.4 points are "
    "ZO-Feat-Cls2's gains, 7.6 and 10.7 points ZO-Feat-Cls1's"
)
_GAP_QUOTES = {
    ("fp32", True): "Full ZO gives 9.3-14.3% lower accuracy than Full BP",
    ("fp32", False): "ZO-Feat-Cls2 and ZO-Feat-Cls1 shrink the accuracy gap to 4.3-9.1% and "
    "1.6-4.8%",
    ("int8", True): "Full ZO shows 9.0-16.4% lower accuracy than Full BP",
    ("int8", False): "ZO-Feat-Cls2 and ZO-Feat-Cls1 produce [...] reducing the accuracy gap to "
    "4.4-10.1% and 1.4-5.7%",
}
_TUNING_QUOTES = {
    "mnist": "fine-tuning with ZO-Feat-Cls2/ZO-Feat-Cls1 leads to 15.6/18.8% [...] and 39.7/45.0% "
    "[...] accuracy improvements",
    "fashion_mnist": "fine-tuning with ZO-Feat-Cls2/ZO-Feat-Cls1 improves the prediction accuracy "
    "by 37.6/36.3% and 51.2/53.5%",
}

_UNKNOWN_FP32 = ("learning rate", "g_clip", "epsilon", "batch size", "initial weights")
_UNKNOWN_INT8 = ("r_max", "batch size", "NITI's initial weights")
_UNKNOWN_TABLE2 = ("which 1,024 images", "direction and interpolation of the rotation")
_OF_ZO = ("g_clip", "epsilon", "r_max")
_ROWS = {**ROW_LABELS, "none": "w/o Fine-tuning"}
"""Rows of the tables in the paper's words."""

ClaimedAccuracy = tuple[Claim, Quantity]


def describe(cell: Point) -> str:
    """Return the name of a cell, as in ``Full ZO on MNIST rotated by 30°, FP32``."""
    p_zero = cell.get("p_zero")
    sparsity = "" if p_zero is None else f", p_zero = {p_zero} in every epoch"
    return f"{ROW_LABELS[str(cell['method'])]} on {_where(cell)}{sparsity}"


def describe_gap(high: Point, low: Point) -> str:
    """Return the name of a difference, with what both runs share only once.

    For example ``ZO-Feat-Cls2 minus Full ZO on MNIST, FP32``.
    """
    method, setting = describe(high).split(" on ", 1)
    is_shared = describe(low).endswith(f" on {setting}")
    return f"{method if is_shared else describe(high)} minus {describe(low)}"


def _where(column: Point) -> str:
    """Return a column's heading, as in ``MNIST rotated by 30°, FP32``."""
    dataset, precision = str(column["dataset"]), str(column["precision"])
    rotation = f" rotated by {column['angle']}°" if "angle" in column else ""
    return f"{DATASETS[dataset]}{rotation}, {PRECISIONS[precision]}"


def _table(
    number: int, columns: Sequence[Point], rows: Mapping[str, str]
) -> Iterator[ClaimedAccuracy]:
    """Yield a claim for each number of a table, and one for the order of each column.

    A number is not a bound: a far higher accuracy would mean a different experiment.
    """
    section, artifact = f"5.2, Table {number}", f"elasticzo_table{number}"
    for place, column in enumerate(columns):
        where, stem = _where(column), f"B-T{number}-{_label(column)}"
        printed = {method: row.split()[place] for method, row in rows.items()}
        printed = {method: digits for method, digits in printed.items() if digits != "-"}
        for method, digits in printed.items():
            yield _entry(
                f"{stem}-{method}",
                f"{ROW_LABELS[method]} on {where}: test accuracy",
                digits,
                Accuracy({**column, "method": method}),
                section=section,
                artifact=artifact,
                quote=f"Table {number}, row {_ROWS[method]}, column {_heading(column)}: {digits}",
                unknown=_unknown(column, number, method),
            )
        ascending = sorted(printed, key=lambda method: Decimal(printed[method]))
        yield _entry(
            f"{stem}-order",
            f"{' < '.join(ROW_LABELS[name] for name in ascending)} on {where}: least certain gap",
            "0.00",
            order(*({**column, "method": method} for method in ascending)),
            relation="at least",
            section=section,
            artifact=artifact,
            quote=f"Table {number}, column {_heading(column)}: "
            + " < ".join(printed[method] for method in ascending),
            is_stated=False,
            unknown=_unknown(column, number),
        )


def _heading(column: Point) -> str:
    """Return a column's heading in the paper's words: ``Rotated F-MNIST, 30 deg, FP32``."""
    dataset, precision = str(column["dataset"]), PRECISIONS[str(column["precision"])]
    if "angle" not in column:
        return f"{DATASETS[dataset]}, {precision}"
    name = {"mnist": "MNIST", "fashion_mnist": "F-MNIST"}[dataset]
    return f"Rotated {name}, {column['angle']} deg, {precision}"


def _unknown(column: Point, table: int, method: str = "") -> tuple[str, ...]:
    """Return the settings of a column's runs that are missing from our copy of the paper.

    Backpropagation has no perturbation and clips nothing; without fine-tuning nothing is trained
    but the weights it starts from. NITI has no learning rate.
    """
    in_floats = column["precision"] == "fp32"
    settings: tuple[str, ...] = _UNKNOWN_FP32 if in_floats else _UNKNOWN_INT8
    if method in ("full_bp", "none"):
        settings = tuple(name for name in settings if name not in _OF_ZO)
    if column["dataset"] == "modelnet40":
        return ("number of epochs", *settings)
    if table == 1:
        return settings
    if method == "none":
        settings = ("batch size of pre-training", *settings[-1:])
    pretraining = ("learning rate of pre-training",) if in_floats else ()
    return (*settings, *_UNKNOWN_TABLE2, *pretraining)


def _gaps() -> Iterator[ClaimedAccuracy]:
    """Yield the claims that section 5.2 states in words about Table 1."""
    for number, dataset in enumerate(IMAGE_SETS):
        fp32, int8, int8_star = ({"dataset": dataset, "precision": p} for p in PRECISIONS)
        for (precision, method), published in _GAINS.items():
            column: Point = {"dataset": dataset, "precision": precision}
            claim, gaps = _entry(
                f"B-T1-{_label(column)}-{method}-gain",
                f"{ROW_LABELS[method]} minus Full ZO on {_where(column)}",
                published[number],
                Gaps(_pairs(column, ["full_zo"], column, [method])),
                section=_GAIN_SECTIONS.get(published[number], "5.2"),
                quote=_GAIN_QUOTES[precision],
                unknown=_unknown(column, 1),
            )
            if precision == "int8":
                printed = float(_GAINS["int8", "cls1" if method == "cls2" else "cls2"][number])
                claim = replace(claim, printed=printed, correction=_SWAPPED)
            yield claim, gaps
        for (precision, method), published in _GAPS_TO_BP.items():
            column = {"dataset": dataset, "precision": precision}
            yield _entry(
                f"B-T1-{_label(column)}-{method}-gap",
                f"Full BP minus {ROW_LABELS[method]} on {_where(column)}",
                published[number],
                Gaps(_pairs(column, [method], column, ["full_bp"])),
                quote=_GAP_QUOTES[precision, method == "full_zo"],
                unknown=_unknown(column, 1),
            )
        yield _entry(
            f"B-T1-{dataset}-int8-loss",
            f"INT8 minus FP32 on {DATASETS[dataset]}, smaller of ZO-Feat-Cls2 and -Cls1",
            _INT8_MINUS_FP32[number],
            Gaps(_pairs(fp32, _ELASTIC, int8, _ELASTIC)),
            relation="at least",
            quote="The accuracy difference is at most 0.5% and 2.0% in MNIST and Fashion-MNIST",
            unknown=tuple(dict.fromkeys((*_UNKNOWN_FP32, *_UNKNOWN_INT8))),
        )
        for pick in ("smallest", "largest"):
            yield _entry(
                f"B-T1-{dataset}-int8_star-drop-{pick}",
                f"INT8 minus INT8* on {DATASETS[dataset]}, {pick} of the methods'",
                _INT8S_DROPS[pick][number],
                Gaps(_pairs(int8_star, ZEROTH_ORDER, int8, ZEROTH_ORDER), pick),
                quote="The proposed integer-only gradient estimation [...] leads to 0.4-1.5% and "
                "2.4-3.1% accuracy drop in MNIST and Fashion-MNIST",
                unknown=_unknown(int8, 1),
            )


def _clouds() -> Iterator[ClaimedAccuracy]:
    """Yield the comparisons that section 5.2 makes in words on ModelNet40."""
    column: Point = {"dataset": "modelnet40", "precision": "fp32"}
    methods = {name: {**column, "method": name} for name in METHOD_LABELS}
    quote = (
        "ElasticZO largely outperforms Full ZO and also shows a comparable or even better accuracy "
        "to Full BP by training only the last few FC layers via BP"
    )
    for name, statement, gaps, is_stated in (
        (
            "above-full_zo",
            "ZO-Feat-Cls2 and ZO-Feat-Cls1 minus Full ZO on ModelNet40: less certain gap",
            Gaps(tuple((methods["full_zo"], methods[tail]) for tail in _ELASTIC), "least certain"),
            True,
        ),
        (
            "above-full_bp",
            "Better of ZO-Feat-Cls2 and ZO-Feat-Cls1 minus Full BP on ModelNet40",
            Gaps(tuple((methods["full_bp"], methods[tail]) for tail in _ELASTIC), "largest"),
            False,
        ),
    ):
        yield _entry(
            f"B-T1-modelnet40-fp32-{name}",
            statement,
            "0.00",
            gaps,
            relation="at least",
            quote=quote,
            is_stated=is_stated,
            unknown=_unknown(column, 1),
        )


def _tuning_gains() -> Iterator[ClaimedAccuracy]:
    """Yield the gains from fine-tuning that section 5.2 states in words for Table 2."""
    for (dataset, angle), gains in _TUNING_GAINS.items():
        column: Point = {"dataset": dataset, "angle": angle, "precision": "fp32"}
        for method, published in gains.items():
            yield _entry(
                f"B-T2-{_label(column)}-{method}-gain",
                f"{ROW_LABELS[method]} minus {ROW_LABELS['none'].lower()} on {_where(column)}",
                published,
                Gaps(_pairs(column, ["none"], column, [method])),
                artifact="elasticzo_table2",
                quote=_TUNING_QUOTES[dataset],
                unknown=_unknown(column, 2),
            )


def _rotated() -> Iterator[ClaimedAccuracy]:
    """Yield the claims that section 5.2 makes about Full ZO in INT8 on Table 2."""
    low, high = (
        [{"dataset": "fashion_mnist", "angle": angle, "precision": p} for angle in (30, 45)]
        for p in ("int8", "fp32")
    )
    yield _entry(
        "B-T2-fashion_mnist-int8-loss",
        "Full ZO in FP32 minus Full ZO in INT8 on rotated Fashion-MNIST: the less certain gap of "
        "the two angles",
        "0.00",
        Gaps(
            tuple(
                ({**worse, "method": "full_zo"}, {**better, "method": "full_zo"})
                for worse, better in zip(low, high, strict=True)
            ),
            "least certain",
        ),
        relation="at least",
        artifact="elasticzo_table2",
        quote="Full ZO is affected by 8-bit quantization especially with Rotated Fashion-MNIST",
        unknown=tuple(dict.fromkeys((*_UNKNOWN_FP32, *_UNKNOWN_INT8, *_UNKNOWN_TABLE2))),
    )


def _sparsity() -> Iterator[ClaimedAccuracy]:
    """Yield the claims on the p_zero schedule: Full ZO in INT8 with and without it."""
    for number, dataset in enumerate(IMAGE_SETS):
        column: Point = {"dataset": dataset, "precision": "int8", "method": "full_zo"}
        fixed, scheduled = ({**column, "p_zero": p_zero} for p_zero in (0.33, None))
        where = f"Full ZO on {DATASETS[dataset]}, INT8"
        yield _entry(
            f"B-sparsity-{dataset}-fixed",
            f"{where}, p_zero = 0.33 in every epoch: test accuracy",
            _FIXED_SPARSITY[number],
            Accuracy(fixed),
            artifact="elasticzo_sparsity",
            quote=_SPARSITY_QUOTE,
            unknown=_UNKNOWN_INT8,
        )
        yield _entry(
            f"B-sparsity-{dataset}-gain",
            f"{where}: p_zero raised in steps minus p_zero = 0.33 in every epoch",
            _SCHEDULE_GAINS[number],
            Gaps(((fixed, scheduled),)),
            artifact="elasticzo_sparsity",
            quote=_SPARSITY_QUOTE,
            unknown=_UNKNOWN_INT8,
        )


_SIGNS = Claim(
    id="B-sign",
    paper="elasticzo",
    section="4.3, 5.2",
    artifact="elasticzo_int8_sign",
    statement="Share of steps at which INT8* and the floating-point loss give the gradient the "
    "same sign: mean of three methods and two data sets over all steps of training at B = 256",
    quote="correct signs can be obtained at a high probability (95%) [...] due to incorrect "
    "estimation results (around 5% of the time)",
    published=95,
    unit="%",
    basis="trained",
    unknown=("over which steps, method and data set", "batch size", "r_max"),
)


def _entry(
    claim_id: str,
    statement: str,
    published: str,
    quantity: Quantity,
    **others: Any,  # noqa: ANN401 - fields of Claim
) -> ClaimedAccuracy:
    """Return a claim on trained accuracies; ``published`` is text, to keep its printed digits."""
    claim = Claim(
        id=claim_id,
        paper="elasticzo",
        statement=statement,
        published=float(published),
        unit="%" if isinstance(quantity, Accuracy) else "points",
        basis="trained",
        digits=len(published.partition(".")[2]),
        **{"section": "5.2", "artifact": "elasticzo_table1", **others},
    )
    return claim, quantity


def _pairs(
    low: Point, low_methods: Sequence[str], high: Point, high_methods: Sequence[str]
) -> tuple[tuple[Point, Point], ...]:
    return tuple(
        ({**low, "method": first}, {**high, "method": second})
        for first, second in zip(low_methods, high_methods, strict=True)
    )


def _label(column: Point) -> str:
    """Return a column's part of a claim id, as in ``mnist-30-fp32``."""
    return "-".join(str(value) for value in column.values())


_ENTRIES: tuple[ClaimedAccuracy, ...] = (
    *_table(1, _COLUMNS1, _TABLE1),
    *_gaps(),
    *_clouds(),
    *_table(2, _COLUMNS2, _TABLE2),
    *_tuning_gains(),
    *_rotated(),
    *_sparsity(),
)

CLAIMS: tuple[Claim, ...] = (*(claim for claim, _ in _ENTRIES), _SIGNS)
QUANTITIES: dict[str, Quantity] = {claim.id: quantity for claim, quantity in _ENTRIES}
"""The accuracy or gap behind each claim; claims on signs have none and are left out."""
