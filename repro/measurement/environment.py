"""Describe the environment of a measurement: code, machine, libraries, backend flags."""

import hashlib
import os
import platform
import re
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

import repro
from repro.core.paths import sha256_of
from repro.measurement.device import driver, memory_of

LIBRARIES = ("torch", "transformers", "numpy", "memray", "torchvision", "datasets", "zo-repro")
SOURCE = Path(repro.__file__).parent


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The circumstances of a run; nothing in it names a host, a user or a path."""

    commit: str | None
    """Git commit of the suite's source, or null outside a checkout."""
    dirty: bool | None
    """Whether code or dependencies differ from that commit; results, notebooks, their text and
    generated files are ignored."""
    source_sha256: str
    """Hash over every Python file of the package, that is, of the code that really ran."""
    constraints_sha256: str | None
    """Hash of the lock file ``constraints.txt``, or null outside a checkout."""
    python: str
    system: str
    """Kernel name and machine, as in ``Linux x86_64``."""
    cpu: str
    """The processor as it names itself; newer records add its family and model."""
    cores: int
    """Logical cores this process may use."""
    memory_bytes: int
    threads: int
    """Threads PyTorch uses inside an operator; training runs record their own in ``trained``."""
    cpu_capability: str
    """Vector instructions PyTorch dispatches to, as in ``AVX512``."""
    onednn: bool
    """Whether PyTorch's oneDNN (MKL-DNN) backend is on."""
    gpu: str | None
    versions: dict[str, str]
    gpu_driver: str | None = None
    """Version of the GPU's driver; null without a GPU, and in records older than this field."""

    @property
    def code(self) -> dict[str, Any]:
        """The commit and the dirty flag, if known."""
        code = {"commit": self.commit, "dirty": self.dirty}
        return {name: value for name, value in code.items() if value is not None}


def capture() -> Environment:
    """Return this process's environment; imports torch."""
    import torch

    commit, dirty = None, None
    if _git("ls-files", "--error-unmatch", "__init__.py") is not None:  # tracked by this checkout
        commit = _git("rev-parse", "HEAD")
        generated = (":(exclude)report/summary.json", ":(exclude,glob)**/*.md")
        inputs = (".", "../pyproject.toml", "../constraints.txt", *generated)
        changes = _git("status", "--porcelain", "--", *inputs)
        dirty = None if changes is None else bool(changes)
    lock = SOURCE.parent / "constraints.txt"
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return Environment(
        commit=commit,
        dirty=dirty,
        source_sha256=source_sha256(),
        constraints_sha256=sha256_of(lock) if lock.is_file() else None,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu_model(),
        cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        memory_bytes=memory_of("cpu"),
        threads=torch.get_num_threads(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        onednn=bool(torch._C._get_mkldnn_enabled()),  # read by torch.backends.mkldnn.enabled
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        versions=library_versions(),
        gpu_driver=driver(),
    )


def commit_label(commit: str | None, dirty: bool | None) -> str:
    """Return a readable label of the commit and the dirty flag."""
    name = "outside a checkout" if commit is None else commit[:12]
    return f"{name} with local changes" if dirty else name


@cache
def source_sha256(*packages: str, without: tuple[str, ...] = ()) -> str:
    """Return the hash over paths and contents of the suite's Python files.

    ``packages`` limits it to some subpackages, as in ``source_sha256("memory", "methods")``, and
    ``without`` leaves out files, by their path in the package.
    """
    total = hashlib.sha256()
    for directory in [SOURCE / package for package in packages] or [SOURCE]:
        for path in sorted(directory.rglob("*.py")):
            name = path.relative_to(SOURCE).as_posix()
            if name in without:
                continue
            total.update(name.encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def library_versions() -> dict[str, str]:
    """Return the installed version of each library that can change a number."""
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(SOURCE), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu_model() -> str:
    """Return the processor's name, with family and model: clouds name generations alike."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    fields = dict(
        re.findall(r"^([A-Za-z ]+?)\s*:[ \t]*(.*)$", text.partition("\n\n")[0], re.MULTILINE)
    )
    name = fields.get("model name") or platform.processor() or "unknown"
    if "CPU part" in fields:  # Arm's processors have numbers for names
        name = f"Arm implementer {fields.get('CPU implementer')}, part {fields['CPU part']}"
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name
