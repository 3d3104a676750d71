"""What a panel says of its series besides their numbers: a lower profile, seeds that diverged.

A profile other than the published one is named in the panel's title where all series share it, else
at each series that has it.
"""

from collections.abc import Collection

PAPER = "paper"
"""The published profile, which needs no naming."""


def title(text: str, profiles: Collection[str]) -> str:
    """Return a panel's title; ``profiles`` are those of all that it shows."""
    only = set(profiles)
    return text if len(only) != 1 or PAPER in only else f"{text} ({only.pop()})"


def remark(profile: str, caveat: str, profiles: Collection[str]) -> str:
    """Return what is said at one series of a panel; empty where there is nothing to say."""
    named = profile != PAPER and len(set(profiles)) > 1
    return ", ".join(part for part in (profile if named else "", caveat) if part)
