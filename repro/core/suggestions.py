"""Messages about unknown names."""

import difflib
from collections.abc import Iterable


def unknown(kind: str, name: str, known: Iterable[str], elsewhere: str) -> str:
    """Return a message that suggests at most three similar names, or says where all are listed.

    Args:
        kind: the noun before the name, as in ``artifact``.
        name: the unknown name.
        known: the valid names.
        elsewhere: the command that lists all names, as in ``repro list``.
    """
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"{elsewhere} lists all"
    return f"no {kind} named {name!r}; {hint}"
