"""Run the command line, as ``repro`` or with ``python -m repro``."""

import sys


def main() -> int:
    """Run ``repro``; say which extra holds a package that is not installed."""
    try:
        from repro.cli import main as run

        return run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "repro"):
            raise
        sys.stderr.write(
            f"repro: error: {package} is not installed, and this command needs it: "
            "pip install 'zo-repro[suite]', or [plan] for `repro plan` alone; the methods need "
            "PyTorch only\n"
        )
        return 1


if __name__ == "__main__":
    sys.exit(main())
