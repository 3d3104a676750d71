"""What a sentence for readers states: tests read its numbers, not its wording."""

import re


def numbers(text: str) -> list[float]:
    """Return the numbers of a text in their order; digits within a name, as in INT8, do not count.

    Raises:
        ValueError: a number is joined to a unit or has separators, and is not read.
    """
    found = re.findall(r"(?<![\w.,-])[+-]?\d[\w.,]*(?<![.,])", text)
    return [float(one) for one in found]
