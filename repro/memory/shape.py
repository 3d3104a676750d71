"""The sizes that decide how much memory the training of a decoder-only transformer takes."""

from dataclasses import dataclass

from repro.core.errors import UsageError
from repro.core.validation import Checked


@dataclass(frozen=True)
class DecoderShape(Checked):
    """A decoder and its batch, in the notation of the MeZO paper's Table 1."""

    context: int
    """N, tokens per sequence."""
    layers: int
    """L, decoder blocks."""
    hidden: int
    """D, hidden dimension."""
    heads: int
    """H, attention heads, with as many key/value heads; divides D."""
    vocabulary: int
    """V, tokens of the vocabulary."""
    batch: int = 1
    """B, sequences per step."""

    def __post_init__(self) -> None:
        """Refuse sizes below 1, and heads that do not divide D."""
        super().__post_init__()
        if self.hidden % self.heads:
            raise UsageError(
                f"attention heads H = {self.heads} do not divide the hidden dimension "
                f"D = {self.hidden}: choose D as a multiple of H"
            )
        if self.hidden // self.heads % 2:
            raise UsageError(
                f"head size D / H = {self.hidden} / {self.heads} is odd: rotary position "
                "embeddings turn pairs, choose D as an even multiple of H"
            )


LLAMA2_7B = DecoderShape(context=2048, layers=32, hidden=4096, heads=32, vocabulary=32000)
"""MeZO paper, section 2.4: the setting of Fig. 3."""
