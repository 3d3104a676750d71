"""The checks that a dataclass declares by the types of its fields."""

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import pytest

from repro.artifacts.base import config_dict
from repro.artifacts.index import ARTIFACTS
from repro.core.errors import UsageError
from repro.core.validation import ANY_NUMBER, Checked, Count, Counts, Points, Seed


def is_even(name: str, value: int) -> None:
    if value % 2:
        msg = f"{name} = {value}: must be even"
        raise UsageError(msg)


@dataclass(frozen=True)
class Base(Checked):
    steps: int = 1
    rate: float = 0.5
    seed: Seed = 0


@dataclass(frozen=True)
class Config(Base):
    angle: Literal[30, 45] = 30
    even: Annotated[int, is_even] = 0
    skipped: Count = 0
    points: Points | None = None
    sign: Literal["plus", "minus"] | None = None
    numbers: tuple[int, ...] = (1, 2)
    words: tuple[str, ...] = ("a",)
    pairs: tuple[Literal["x", "y"], ...] = ("x",)
    sizes: Counts = ()
    kinds: Annotated[tuple[Literal["x", "y"], ...], ANY_NUMBER] = ()
    unchecked: str = ""
    flag: bool = False
    either: int | str = 0
    start: "Config | None" = None


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 0, "steps = 0: must be a whole number of at least 1"),
        ("steps", True, "steps = True: must be a whole number"),
        ("rate", 0.0, "rate = 0.0: must be a finite number above 0"),
        ("rate", math.nan, "rate = nan: must be a finite number above 0"),
        ("seed", 2**32, "seed = 4294967296: must be a whole number from 0 to 4294967295"),
        ("angle", 60, "angle = 60: must be one of 30, 45"),
        ("even", 3, "even = 3: must be even"),
        ("skipped", -1, "skipped = -1: must be a whole number of at least 0"),
        ("points", 1025, "points = 1025: the clouds have 1024 points, so at most 1024"),
        ("sign", "both", "sign = 'both': must be one of plus, minus"),
        ("numbers", (), "numbers is empty: give at least one value"),
        ("numbers", (2, 2), r"numbers = \[2, 2\]: each value may be given only once"),
        ("numbers", (2, 0), "numbers = 0: must be a whole number of at least 1"),
        ("words", ("a", "a"), r"words = \['a', 'a'\]: each value may be given only once"),
        ("pairs", ("z",), "pairs = 'z': must be one of x, y"),
        ("sizes", (2, 0), "sizes = 0: must be a whole number of at least 1"),
        ("kinds", ("x", "z"), "kinds = 'z': must be one of x, y"),
    ],
)
def test_a_value_that_the_type_forbids_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}"):
        replace(Config(), **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", 1),
        ("seed", 2**32 - 1),
        ("even", 4),
        ("points", 1024),
        ("sign", "plus"),
        ("words", ("", "b")),
        ("sizes", (3, 3)),
        ("kinds", ("x", "x")),
        ("either", -1),
        ("start", Config()),
    ],
)
def test_a_value_that_the_type_allows_is_kept(field: str, value: Any) -> None:
    assert getattr(replace(Config(), **{field: value}), field) == value


MAY_BE_ZERO = {
    "live_layers", "budget_bytes", "bp_steps", "zo_forwards", "final_items", "evaluated_items",
    "seeds", "long_seeds", "p_zero",
}  # fmt: skip
MAY_BE_EMPTY = {
    *(f"{part}_{axis}" for part in ("simulate", "measure")
      for axis in ("contexts", "layers", "hiddens")),
    "contexts", "depths", "hiddens", "fig4_models",
}  # fmt: skip
MAY_REPEAT = {*MAY_BE_EMPTY, "zo_forwards"}
PAIRED = ("mezo_step_time", "batches")
FREE_TEXT = {"setting", "bp_models", "mezo_models", "model"}


@pytest.mark.parametrize("artifact", ARTIFACTS.values(), ids=lambda artifact: artifact.slug)
def test_no_configuration_has_what_cannot_be_run(artifact: Any) -> None:
    config = artifact.profiles["paper"]
    for name, value in config_dict(config).items():
        several = isinstance(value, list)
        one = value[0] if several and value else value
        wrong: list[Any] = []
        if type(one) in (int, float):
            wrong = [-1, math.nan, *([] if name in MAY_BE_ZERO else [0])]
        elif isinstance(one, str) and name not in FREE_TEXT:
            wrong = ["no such word"]
        for each in wrong:
            with pytest.raises(UsageError, match=str(each)):
                replace(config, **{name: (each,) if several else each})
        if several and name not in MAY_BE_EMPTY:
            with pytest.raises(UsageError, match=name):
                replace(config, **{name: ()})
        if several and name not in MAY_REPEAT and (artifact.slug, name) != PAIRED:
            with pytest.raises(UsageError, match="each value may be given only once"):
                replace(config, **{name: (one, one)})
