"""Count how killed commands and fuzzed files end, and write the tables of docs/reliability.md.

    python tests/faults/count.py --minutes 10            # tries commands and signals in turn
    python tests/faults/count.py --fuzz --minutes 10     # fuzzes the readers in turn
    python tests/faults/count.py                         # only writes the document again

Counts are added to those of earlier nights in ``counts.json``.
"""

import argparse
import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from faults.commands import COMMANDS  # noqa: E402 - after the path
from faults.fuzzing import READERS, Found, Reader, fuzz  # noqa: E402
from faults.kills import Count, expected, try_once  # noqa: E402
from repro.core import atomic  # noqa: E402
from repro.ondevice.build import build  # noqa: E402

COUNTS = HERE / "counts.json"
DOCUMENT = HERE.parents[1] / "docs" / "reliability.md"
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
FUZZED_AT_ONCE = 2000
FUZZED_BYTES = 8 << 30
"""Address space of a process that fuzzes; PyTorch alone takes some 3 GiB."""
_KILLS = ("tries", "kills", "lost", "differing", "unclear", "leftovers", "orphans", "noisy")
_FUZZ = ("inputs", "accepted", "refused", "unhandled", "slow")


def count_kills(counts: dict[str, Any], seconds: float, seed: int) -> None:
    """Try every command with every signal in turn, until the time is over."""
    moments, end = random.Random(seed), time.monotonic() + seconds
    wanted = {}
    while True:
        for number in SIGNALS:
            for command in COMMANDS.values():
                if time.monotonic() > end:
                    return
                if command.name not in wanted:
                    wanted[command.name] = expected(command)
                count = Count()
                try_once(command, number, wanted[command.name], moments, count)
                for said in count.heard:
                    sys.stderr.write(f"{command.name}: {said}\n")
                row = counts["kills"].setdefault(f"{command.name} {number.name}", {})
                for name in _KILLS:
                    value = getattr(count, name)
                    added = value.total() if name == "kills" else value
                    row[name] = row.get(name, 0) + added
                _save("kills", counts)


def count_fuzz(counts: dict[str, Any], seconds: float, seed: int) -> None:
    """Fuzz every reader in turn, until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name, reader in READERS.items():
            seed += 1
            found = _fuzzed(reader, seed)
            row = counts["fuzz"].setdefault(name, dict.fromkeys(_FUZZ, 0))
            for key in _FUZZ:
                row[key] += getattr(found, key)
            for crash in found.crashes:
                sys.stderr.write(f"{name}: {crash}\n")
            _save("fuzz", counts)


def _fuzzed(reader: Reader, seed: int) -> Found:
    """Fuzz in a process of its own; its end by a crash or too much memory is one unhandled."""
    context = multiprocessing.get_context("fork")  # a reader cannot be pickled
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_fuzz_and_send, args=(reader, seed, sender))
    process.start()
    sender.close()
    try:
        found: Found = receiver.recv()
    except EOFError:
        process.join()
        crash = f"the process ended with status {process.exitcode}, seed {seed}"
        found = Found(inputs=1, unhandled=1, crashes=[crash])
    process.join()
    return found


def _fuzz_and_send(reader: Reader, seed: int, sender: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (FUZZED_BYTES, FUZZED_BYTES))
    sender.send(fuzz(reader, FUZZED_AT_ONCE, seed))


def tables(counts: Mapping[str, Any]) -> dict[str, str]:
    """Return the tables of the document, by name."""
    kills = [(*key.split(), *(str(row[n]) for n in _KILLS)) for key, row in _rows(counts, "kills")]
    fuzzed = [(key, *(f"{row[n]:,}" for n in _FUZZ)) for key, row in _rows(counts, "fuzz")]
    return {
        "kills": _table(("command", "signal", *_KILLS), kills),
        "fuzz": _table(("reader", *_FUZZ), fuzzed),
    }


def _rows(counts: Mapping[str, Any], kind: str) -> list[tuple[str, dict[str, int]]]:
    rows = sorted(counts[kind].items())
    total = {name: sum(row[name] for _, row in rows) for _, row in rows[:1] for name in row}
    return [*rows, ("**all** " if kind == "kills" else "**all**", total)] if rows else []


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    padded = [(row[0], "", *row[1:]) if len(row) < len(header) else row for row in rows]
    lines = [header, tuple("---" for _ in header), *padded]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def document(text: str, counts: Mapping[str, Any]) -> str:
    """Return the document with its tables made from ``counts``."""
    for name, table in tables(counts).items():
        begin, end = f"<!-- {name}: by tests/faults/count.py -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{table}\n{end}{after}"
    return text


def read_counts() -> dict[str, Any]:
    """Return the counts so far."""
    found: dict[str, Any] = json.loads(COUNTS.read_text())
    return found


def _save(kind: str, counts: Mapping[str, Any]) -> None:
    """Keep the counts of one kind, and those of the other as another process may have left them."""
    kept = {**read_counts(), kind: counts[kind]}
    atomic.replace(COUNTS, json.dumps(kept, indent=1, sort_keys=True).encode() + b"\n")


def main() -> None:
    """Count, then write the document."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--fuzz", action="store_true")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    counts = read_counts()
    # a shell's job in the background ignores interrupts, and so would the commands
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments.minutes:
        os.environ.setdefault("REPRO_ENGINE_DIR", str(build().parents[1]))  # of every command
        count = count_fuzz if arguments.fuzz else count_kills
        count(counts, arguments.minutes * 60, arguments.seed)
    text = document(DOCUMENT.read_text(encoding="utf-8"), read_counts())
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
