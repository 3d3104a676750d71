"""A published statement, and the bases on which we have a value for it."""

from dataclasses import dataclass
from typing import Literal

Basis = Literal["analytic", "simulated", "measured", "engine", "timed", "trained"]
"""Source of our value: the paper's own equations (analytic), counted tensors (simulated), the
allocator under PyTorch (measured) or under the compiled engine (engine), a clock on another machine
(timed), or training (trained), where the verdict depends on the spread over seeds."""

Relation = Literal["equals", "at least", "at most"]
SIGNS: dict[str, str] = {"equals": "", "at least": "≥ ", "at most": "≤ "}
"""Signs printed before a published number, by its relation."""


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
    """The paper's number; if ``correction`` names a slip in it, the corrected number."""
    unit: str
    """Unit of ``published`` and of our value: ``x`` for a ratio, ``GB`` for 1e9 bytes, ``MiB`` and
    ``KiB`` for 2**20 and 2**10, ``%`` for per cent, ``points`` for percentage points between
    accuracies, ``nats`` for losses, ``settings`` for their number, ``billion`` for parameters."""
    basis: Basis
    digits: int = 0
    """Decimals that the paper prints; ours is rounded to as many before the comparison."""
    relation: Relation = "equals"
    quote: str = ""
    """The paper's own words in ASCII, with [...] for words left out or lost in our copy; for a
    number in a table, its row and column."""
    printed: float | None = None
    """The number as the paper prints it, if ``published`` differs from it."""
    correction: str = ""
    """The slip in the paper that ``published`` is corrected for."""
    remark: str = ""
    """Context for the reader, independent of our value."""
    same_as: str = ""
    """Id of the statement, if this claim is its value on another basis; empty for a statement."""
    is_stated: bool = True
    """Whether the paper states it; otherwise it is our reading of the paper's numbers."""
    unknown: tuple[str, ...] = ()
    """Settings that decide the result and are missing from the paper, or from our copy of it."""
    judged_by: tuple[str, ...] = ()
    """Profiles whose records give a verdict. If empty, these are all profiles, or for trained
    values only the published setting."""
