"""The hyperparameters that the search chose on validation items (artifact ``elasticzo_search``).

A test holds this table equal to the best of the committed records of that search. Where the paper
gives a value it is not searched: the decay (0.8 every 10 epochs), b_ZO and the schedules of the
integer methods.
"""

from collections.abc import Mapping

from repro.core.errors import UsageError
from repro.core.names import METHODS, MethodName, Precision
from repro.training.cell import FloatSettings, IntegerSettings, Settings
from repro.training.problem import find

Family = tuple[str, Precision]
"""Problems that share their hyperparameters, and a precision; INT8* has those of INT8."""

_MNIST: dict[MethodName, Settings] = {
    "full_zo": FloatSettings(lr=1.6e-2, clip=0.05),
    "cls2": FloatSettings(lr=1.6e-2, clip=0.05),
    "cls1": FloatSettings(lr=1.6e-2, clip=0.1),
    "full_bp": FloatSettings(lr=5e-2),
}
_INTEGERS: dict[MethodName, Settings] = dict.fromkeys(METHODS, IntegerSettings(r_max=15))
CHOSEN: Mapping[Family, Mapping[MethodName, Settings]] = {
    ("mnist", "fp32"): _MNIST,
    ("fashion_mnist", "fp32"): _MNIST,
    ("rotated_mnist", "fp32"): _MNIST,
    ("rotated_fashion_mnist", "fp32"): _MNIST,
    ("clouds", "fp32"): _MNIST,
    ("mnist", "int8"): _INTEGERS,
    ("fashion_mnist", "int8"): _INTEGERS,
    ("rotated_mnist", "int8"): _INTEGERS,
    ("rotated_fashion_mnist", "int8"): _INTEGERS,
}
PRE_TRAINING = FloatSettings(lr=1e-3, rule="adam")
"""One epoch by Adam before fine-tuning in float32 (section 5.1.2), at PyTorch's rate."""


def family(problem: str) -> str:
    """Return the name that a problem's hyperparameters are kept under.

    The two angles of a rotated set share theirs, and so do all sets of clouds.
    """
    found = find(problem)
    return "clouds" if found.network == "pointnet" else found.dataset


def chosen(problem: str, precision: Precision, method: MethodName) -> Settings:
    """Return the hyperparameters for a method on a problem.

    Raises:
        UsageError: none were searched for.
    """
    key: Family = (family(problem), "fp32" if precision == "fp32" else "int8")
    if key not in CHOSEN:
        msg = f"no hyperparameters were searched for {key[0]} in {key[1]}: run elasticzo_search"
        raise UsageError(msg)
    return CHOSEN[key][method]
