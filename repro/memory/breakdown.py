"""The memory of a training step, by kind."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True)
class MemoryBreakdown:
    """Bytes by kind: the parts of the ElasticZO paper's Figs. 4 to 6, and two more."""

    parameters: int = 0
    gradients: int = 0
    activations: int = 0
    errors: int = 0
    """Gradients of activations."""
    int32_buffers: int = 0
    """Accumulators of integer layers, before they are narrowed to int8."""
    optimizer_state: int = 0
    input: int = 0
    """The input batch of the first layer; the paper's formulas do not count it."""
    other: int = 0
    """Tensors outside the formulas: indices of maxima, columns of a convolution, the loss."""

    @classmethod
    def of(cls, sizes: Iterable[tuple[str, int]]) -> "MemoryBreakdown":
        """Return the sum by part of ``sizes``, each the name of a part and bytes."""
        parts = Counter[str]()
        for part, size in sizes:
            parts[part] += size
        return cls(**parts)

    @property
    def total(self) -> int:
        """Sum of all parts."""
        return sum(getattr(self, field.name) for field in fields(self))

    def as_metrics(self, total: str = "total") -> dict[str, int]:
        """Return the parts and their sum, called ``total``, under the names of a record."""
        return {f"{k}_bytes": v for k, v in {total: self.total, **asdict(self)}.items()}
