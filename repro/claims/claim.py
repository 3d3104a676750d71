"""A published claim: a number in one of the papers, and how ours is to be held against it."""

from dataclasses import dataclass
from typing import Literal

Basis = Literal["analytic", "simulated", "measured"]
"""Where our value comes from: the paper's own equations, counted tensors, or an allocator."""

Relation = Literal["equals", "at least"]


@dataclass(frozen=True)
class Claim:
    """One published number."""

    id: str
    """Stable identifier, as in ``A2``; a suffix names a second number or another basis."""
    paper: str
    """``mezo`` or ``elasticzo``."""
    section: str
    """Section, figure or table of the paper."""
    artifact: str
    """Slug of the artifact that gives our value."""
    statement: str
    """The claim in our words."""
    published: float
    """The number in the paper."""
    unit: str
    """Unit of ``published`` and of our value: ``x`` for a ratio, ``GB`` for 1e9 bytes."""
    basis: Basis
    digits: int = 0
    """Decimals the paper prints: a value that rounds to the published one is reproduced."""
    relation: Relation = "equals"
