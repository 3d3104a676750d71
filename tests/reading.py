"""What a sentence for readers states: tests read its numbers, not its wording."""

import re


def numbers(text: str) -> list[float]:
    """Return the numbers of a text in their order; a digit within a name is none."""
    return [float(found) for found in re.findall(r"(?<![\w.-])[+-]?\d+(?:\.\d+)?(?!\w)", text)]
