"""The hyperparameters tuned on validation items (artifact ``elasticzo_search``).

A test checks that this table equals the best of that search's committed records. Values given in
the paper are not tuned: the decay (0.8 every 10 epochs), b_ZO and the schedules of the integer
methods.
"""

from collections.abc import Mapping

from repro.core.errors import UsageError
from repro.core.names import MethodName, Precision
from repro.training.run import FloatSettings, IntegerSettings, Settings
from repro.training.task import vision_task

Family = tuple[str, Precision]
"""Tasks that share their hyperparameters, and a precision; INT8* uses those of INT8."""


def _integers(full_zo: int, cls2: int, cls1: int) -> dict[MethodName, Settings]:
    """Return the settings of each method from its r_max; Full BP (NITI) has nothing to tune."""
    return {
        "full_zo": IntegerSettings(r_max=full_zo),
        "cls2": IntegerSettings(r_max=cls2),
        "cls1": IntegerSettings(r_max=cls1),
        "full_bp": IntegerSettings(),
    }


TUNED: Mapping[Family, Mapping[MethodName, Settings]] = {
    ("mnist", "fp32"): {
        "full_zo": FloatSettings(lr=0.032, clip=0.025),
        "cls2": FloatSettings(lr=0.016, clip=0.05),
        "cls1": FloatSettings(lr=0.016, clip=0.1, eps=3e-2),
        "full_bp": FloatSettings(lr=0.05),
    },
    ("fashion_mnist", "fp32"): {
        "full_zo": FloatSettings(lr=0.016, clip=0.025, eps=1e-3),
        "cls2": FloatSettings(lr=0.032, clip=0.025),
        "cls1": FloatSettings(lr=0.032, clip=0.025),
        "full_bp": FloatSettings(lr=0.05),
    },
    ("rotated_mnist", "fp32"): {
        "full_zo": FloatSettings(lr=0.064, clip=0.025, eps=3e-3),
        "cls2": FloatSettings(lr=0.016, clip=0.1, eps=3e-2),
        "cls1": FloatSettings(lr=0.064, clip=0.05),
        "full_bp": FloatSettings(lr=0.1),
    },
    ("rotated_fashion_mnist", "fp32"): {
        "full_zo": FloatSettings(lr=0.032, clip=0.1),
        "cls2": FloatSettings(lr=0.032, clip=0.05, eps=3e-3),
        "cls1": FloatSettings(lr=0.064, clip=0.05, eps=1e-3),
        "full_bp": FloatSettings(lr=0.1),
    },
    ("modelnet40", "fp32"): {
        "full_zo": FloatSettings(lr=0.032, clip=0.025, eps=3e-3),
        "cls2": FloatSettings(lr=0.032, clip=0.025, eps=1e-3),
        "cls1": FloatSettings(lr=0.032, clip=0.0125, eps=1e-3),
        "full_bp": FloatSettings(lr=0.02),
    },
    ("clouds", "fp32"): {
        "full_zo": FloatSettings(lr=0.064, clip=0.05),
        "cls2": FloatSettings(lr=0.064, clip=0.0125),
        "cls1": FloatSettings(lr=0.016, clip=0.025, eps=3e-3),
        "full_bp": FloatSettings(lr=0.05),
    },
    ("mnist", "int8"): _integers(full_zo=31, cls2=7, cls1=7),
    ("fashion_mnist", "int8"): _integers(full_zo=15, cls2=15, cls1=15),
    ("rotated_mnist", "int8"): {
        "full_zo": IntegerSettings(r_max=31, batch=32),
        "cls2": IntegerSettings(r_max=31, batch=32),
        "cls1": IntegerSettings(r_max=63, batch=64),
        "full_bp": IntegerSettings(batch=32),
    },
    ("rotated_fashion_mnist", "int8"): {
        "full_zo": IntegerSettings(r_max=31, batch=32),
        "cls2": IntegerSettings(r_max=15, batch=32),
        "cls1": IntegerSettings(r_max=31, batch=32),
        "full_bp": IntegerSettings(batch=64),
    },
}
PRE_TRAINING = FloatSettings(lr=1e-3, rule="adam")
"""One epoch of Adam before float32 fine-tuning (section 5.1.2), at PyTorch's default rate."""


def family(task: str) -> str:
    """Return the key of a task's hyperparameters.

    The two angles of a rotated set share their hyperparameters, and so do ``modelnet40`` and
    ``modelnet40_points``, and all other sets of clouds.
    """
    found = vision_task(task)
    name = found.recorded_as or found.dataset
    is_stand_in = found.of_clouds and name != "modelnet40"
    return "clouds" if is_stand_in else name


def tuned_hyperparameters(task: str, precision: Precision, method: MethodName) -> Settings:
    """Return the hyperparameters for a method on a task.

    Raises:
        UsageError: none were tuned.
    """
    key: Family = (family(task), "fp32" if precision == "fp32" else "int8")
    if key not in TUNED:
        msg = f"no hyperparameters were searched for {key[0]} in {key[1]}: run elasticzo_search"
        raise UsageError(msg)
    return TUNED[key][method]
