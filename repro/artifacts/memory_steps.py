"""What the artifacts on memory of the ElasticZO paper have in common: which steps are shown."""

from dataclasses import dataclass

from repro.core.names import METHODS, MethodName
from repro.core.validation import require_distinct, require_names, require_positive_int


@dataclass(frozen=True)
class MemorySteps:
    """Training steps of one network."""

    batches: tuple[int, ...] = (32, 256)
    """B, samples of a step."""
    methods: tuple[MethodName, ...] = METHODS
    """What backpropagation trains: nothing, the last layer, the last two, everything."""
    threads: int = 1
    """Threads of each measured process."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        require_distinct("batches", self.batches)
        for batch in self.batches:
            require_positive_int("batch size B", batch)
        require_names("methods", self.methods, METHODS)
        require_positive_int("threads", self.threads)
