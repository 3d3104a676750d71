"""Directories in which the suite keeps its files, and the hash of a file."""

import hashlib
import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the cache directory: ``REPRO_CACHE_DIR``, else the platform's own for this user."""
    override = os.environ.get("REPRO_CACHE_DIR")
    if override:
        return _absolute(override)
    import platformdirs  # imported here: the light installation lacks it

    return Path(platformdirs.user_cache_dir("zo-repro"))


def data_dir() -> Path:
    """Return the directory of data sets and models: ``REPRO_DATA_DIR``, else one in the cache."""
    override = os.environ.get("REPRO_DATA_DIR")
    return _absolute(override) if override else cache_dir() / "data"


def _absolute(path: str) -> Path:
    # clients of package managers run in other directories
    return Path(os.path.expanduser(path)).absolute()  # noqa: PTH111 - leaves unknown users alone


def names_a_path(name: str) -> bool:
    """Return whether a model's name starts like a path, so it cannot be a name on the hub."""
    return name.startswith((".", "/", "~"))


def notebooks_dir() -> Path:
    """Return the directory of the notebooks: ``REPRO_NOTEBOOKS``, else ``notebooks`` here."""
    return Path(os.environ.get("REPRO_NOTEBOOKS") or "notebooks")


def results_dir() -> Path:
    """Return the directory of the records: ``REPRO_RESULTS``, else ``results`` here."""
    return Path(os.environ.get("REPRO_RESULTS") or "results")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
