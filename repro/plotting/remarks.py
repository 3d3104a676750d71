"""Remarks on a panel's series: a lower profile, diverged seeds.

A profile other than the published one is named in the panel's title if all series share it, else at
each series with that profile.
"""

from collections.abc import Collection

PAPER = "paper"
"""The published profile, which needs no naming."""


def title(text: str, profiles: Collection[str]) -> str:
    """Return a panel's title from its text and the profiles of all its series."""
    only = set(profiles)
    return text if len(only) != 1 or PAPER in only else f"{text} ({only.pop()})"


def remark(profile: str, caveat: str, profiles: Collection[str]) -> str:
    """Return the remark on one series of a panel, or an empty text."""
    named = profile != PAPER and len(set(profiles)) > 1
    return ", ".join(part for part in (profile if named else "", caveat) if part)
