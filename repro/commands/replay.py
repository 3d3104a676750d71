"""``repro replay``: rebuild the final weights of recorded MeZO runs from base model and log."""

import argparse
import sys
from pathlib import Path
from typing import Any

from repro.core.atomic import require_writable
from repro.core.errors import ReproError, UsageError


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "replay", help="rebuild the weights of recorded MeZO runs and check their hashes"
    )
    parser.add_argument(
        "records", type=Path, nargs="+", metavar="RECORDS", help="files of records of mezo_fig4"
    )
    parser.add_argument(
        "--arm", metavar="ARM", help="only this method: mezo_1, mezo_5 or mezo_lora"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="only runs with this seed")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="also save each model here, in the format of transformers",
    )
    parser.set_defaults(
        execute=execute,
        next_step="repro claims --artifact mezo_fig4 lists the statements about them",
    )


def execute(args: argparse.Namespace) -> int:
    """Replay every selected run; return 1 if any of them failed.

    Raises:
        UsageError: a file does not exist or is no file of records, or none holds such a run.
        ReproError: a file is damaged, or ``--out`` cannot be written.
    """
    from repro.finetuning.replay import rebuilt
    from repro.finetuning.saved import model_name, save_model
    from repro.measurement.records import of_kind, read_run
    from repro.methods.log import StepLog

    for path in args.records:
        if not path.is_file():
            raise UsageError(f"{path} is not a file; give records, as in results/mezo_fig4/*.jsonl")
        if path.suffix != ".jsonl":
            raise UsageError(
                f"{path} is no file of records, which end in .jsonl; a log that StepLog.save wrote "
                "is replayed by repro.methods.log.replay (docs/methods.md)"
            )
    every = [
        record
        for path in args.records
        for record in of_kind(read_run(path), "run")
        if args.arm in (None, record.point.get("arm")) and args.seed in (None, record.seed)
    ]
    logged = [record for record in every if {"log", "final_sha256"} <= record.metrics.keys()]
    runs = {
        model_name(record.metrics["settings"], record.seed, record.metrics["final_sha256"]): record
        for record in logged
    }
    if not runs:
        names = " ".join(map(str, args.records))
        asked = [f"--{name}" for name in ("arm", "seed") if getattr(args, name) is not None]
        way_out = f"change {' or '.join(asked)}" if asked else "give records of mezo_fig4"
        raise UsageError(f"{names}: no such finished run of MeZO; {way_out}")
    if len(logged) < len(every):
        sys.stderr.write(
            f"left out: {len(every) - len(logged)} runs without a log of the whole model, or that "
            "did not end\n"
        )
    if args.out is not None:
        require_writable(args.out)
    failed = 0
    for name, record in runs.items():
        try:
            trained = rebuilt({**record.metrics["settings"], "seed": record.seed}, record.metrics)
        except ReproError as error:
            sys.stderr.write(f"repro: error: {name}: {error}\n")
            failed = 1
            continue
        size = len(StepLog.unpacked(record.metrics["log"], record.metrics["steps"][-1]).data)
        sys.stdout.write(
            f"{name}: {record.metrics['steps'][-1]} steps from a log of {size} bytes, "
            f"SHA-256 {record.metrics['final_sha256'][:16]}… as recorded\n"
        )
        if args.out is not None:
            save_model(trained, args.out / name)
    return failed
