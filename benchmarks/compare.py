"""Compare two pytest-benchmark files and fail on a slowdown that noise does not explain.

    python benchmarks/compare.py OLD.json NEW.json

A benchmark has regressed if its median grew by more than a quarter, which is what shared machines
drift by from night to night, and by more than three times the larger interquartile range of the
two. Of one whose arms took turns each arm is compared, and drift is known: a slowdown that all arms
share is the machine's, and only what an arm has beyond it counts. Memory benchmarks (with
``peak_bytes``) are held to 2 %. Files of different machines are not compared.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

SLOWDOWN = 0.25
NOISE = 3.0
MEMORY_GROWTH = 0.02


def regressions(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a line for every benchmark of both files that has regressed."""
    before = {benchmark["fullname"]: benchmark for benchmark in old["benchmarks"]}
    lines = []
    for benchmark in new["benchmarks"]:
        earlier = before.get(benchmark["fullname"])
        line = _regression(earlier, benchmark) if earlier else None
        if line:
            lines.append(f"{benchmark['fullname']}: {line}")
    return lines


def same_machine(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Tell whether both files come from the same kind of processor."""
    return _machine(old) == _machine(new)


def _machine(run: dict[str, Any]) -> tuple[Any, Any]:
    cpu = run["machine_info"]["cpu"]
    return cpu.get("brand_raw"), cpu.get("count")


def _regression(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    peak = "peak_bytes"
    if peak in old["extra_info"] and peak in new["extra_info"]:
        was, now = old["extra_info"][peak], new["extra_info"][peak]
        return f"{was} to {now} bytes" if now > was * (1 + MEMORY_GROWTH) else None
    before, after = old["extra_info"].get("arms"), new["extra_info"].get("arms")
    if before and after:
        return _slower_arms(before, after)
    return _slower(old["stats"], new["stats"])


def _slower_arms(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    both = [arm for arm in new if arm in old]
    least = min((new[arm]["median"] / old[arm]["median"] for arm in both), default=1.0)
    shared = max(1.0, least)  # an arm that became quicker makes the others no slower
    found = {arm: _slower(old[arm], new[arm], shared) for arm in both}
    return "; ".join(f"{arm} {line}" for arm, line in found.items() if line) or None


def _slower(old: dict[str, float], new: dict[str, float], shared: float = 1.0) -> str | None:
    """Say how much the median grew, if by more than ``shared`` times and noise explain."""
    was, now = old["median"], new["median"]
    noise = NOISE * max(old["iqr"], new["iqr"])
    if now - shared * was > max(SLOWDOWN * shared * was, noise):
        return f"{was:.4g} s to {now:.4g} s, {now / was - 1:+.0%}"
    return None


def main(arguments: list[str]) -> int:
    """Compare the two files named and return 1 on a regression, 2 on wrong usage.

    ``--machine FILE`` prints a name for the processor of a file instead.
    """
    if len(arguments) != 2:
        usage = "python benchmarks/compare.py OLD.json NEW.json, or --machine FILE.json"
        sys.stderr.write(f"usage: {usage}\n")
        return 2
    if arguments[0] == "--machine":
        machine = " ".join(map(str, _machine(json.loads(Path(arguments[1]).read_text()))))
        sys.stdout.write(re.sub(r"[^A-Za-z0-9]+", "-", machine).strip("-") + "\n")
        return 0
    old, new = (json.loads(Path(name).read_text()) for name in arguments)
    if not same_machine(old, new):
        sys.stdout.write(f"not compared: {_machine(old)} then, {_machine(new)} now\n")
        return 0
    found = regressions(old, new)
    sys.stdout.write("\n".join(found or ["no regression beyond noise"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
