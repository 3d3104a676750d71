"""The questions, the answers, and the methods that they can matter to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from repro.core.names import ZEROTH_ORDER, MethodName

Changes = Mapping[str, Any]
"""Precision and integer settings that differ from the default's."""


@dataclass(frozen=True)
class Choice:
    """One question and its answers."""

    name: str
    """As drawn."""
    default: str
    """The answer of the tables."""
    others: Mapping[str, Changes]
    """The other answers, each with how its runs differ."""
    methods: tuple[MethodName, ...]
    """Methods that are trained by each answer."""


RESTORE = Choice("restore", "clip", {"exact": {"restore": "exact"}}, ("full_zo", "cls1"))
CHOICES = (
    RESTORE,
    Choice("shift policy", "v2", {"v1": {"shift_policy": "v1"}}, ("full_zo", "cls1", "full_bp")),
    Choice("tail's activations", "plus", {"minus": {"activations": "minus"}}, ("cls2", "cls1")),
    Choice(
        "sign",
        "float",
        {"integer": {"precision": "int8s"}, "exact": {"precision": "int8s", "sign": "exact"}},
        ZEROTH_ORDER,
    ),
)

DEFAULTS: Changes = {
    "precision": "int8",
    "restore": "clip",
    "shift_policy": "v2",
    "activations": "plus",
    "sign": None,
}
"""The coordinates of the runs by the defaults. A null sign is the rule of the precision."""
