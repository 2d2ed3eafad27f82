"""Where a measured number comes from: the commit, the code and the weights it rests on, and the machine.

A document of results has it under ``"provenance"``. The document is current as long as the code and the weights are
those that it was measured with; otherwise whatever quotes it has to say at which commit it was measured.

The module is imported without PyTorch, because other systems are measured in environments that do not have it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError
from plueckernet.evaluation.sources import checkout, file_hash, project_tree, source_hash
from plueckernet.version import __version__

COMMIT_VARIABLE = "PLUECKERNET_COMMIT"  # "<sha>" or "<sha>-dirty", for machines that have the files but not their git
_OUTPUTS = ("benchmarks/results", "docs", "README.md")  # runs write there, so that a second run is not of a dirty tree
_CARD_ENTRIES = ("architecture", "calibration")  # what a card says beside these changes no number


@dataclass(frozen=True)
class Provenance:
    """What a document of results depends on."""

    module: str  # that measures, such as "benchmarks.speed"
    commit: str | None  # full sha
    clean: bool | None  # whether the tree was that of the commit
    sources: str  # hash of the code, see `source_hash`
    weights: Mapping[str, str]  # name, or file name of those that are not the package's -> hash
    files: Mapping[str, str]  # other files, from their package on -> hash
    environment: Mapping[str, Any]  # versions and machine

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def provenance(
    module: str,
    weights: Iterable[str | Path] = (),
    files: Iterable[Path] = (),
    device: str = "cpu",
    packages: Iterable[str] = (),
) -> Provenance:
    """Of numbers that a module measures now.

    Args:
        module: Where they are measured, or one function of it, as in ``"benchmarks.speed:measure"``.
        weights: Names or paths of the weights that are used.
        files: Other files of the project that the numbers depend on.
        device: Its name.
        packages: Others that are measured, whose versions are to be recorded.
    """
    commit, clean = commit_of(checkout())
    return Provenance(
        module=module,
        commit=commit,
        clean=clean,
        sources=source_hash(module),
        weights={_weights_name(name): weights_hash(name) for name in weights},
        files={project_tree().relative(path): file_hash(path) for path in files},
        environment=environment(device, packages),
    )


def environment(device: str = "cpu", packages: Iterable[str] = ()) -> dict[str, Any]:
    """Versions and machine; threads are PyTorch's, if it is used."""
    torch = sys.modules.get("torch")
    return {
        "plueckernet": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in ("torch", "numpy", *packages)},
        "threads": None if torch is None else torch.get_num_threads(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "device": device,
    }


def weights_hash(name: str | Path) -> str:
    """16 hexadecimal digits for tensors, architecture and calibration; the prose of the card does not count."""
    path = _weights_path(name)
    card_path = path.with_suffix(".json")
    try:
        card = json.loads(card_path.read_text(encoding="utf-8"))
        entries = {key: card[key] for key in _CARD_ENTRIES if key in card}
    except (OSError, ValueError, TypeError) as error:
        raise FormatError(card_path, f"no readable card: {error}") from error
    described = json.dumps([file_hash(path), entries], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def network_hash(name: str | Path) -> str:
    """16 hexadecimal digits for the tensors of weights, whatever their card says."""
    return file_hash(_weights_path(name))


def is_current(document: Mapping[str, Any]) -> bool:
    """Whether a document was measured with the present code, weights and files."""
    recorded = _recorded(document)
    if not recorded.get("sources"):
        return False
    try:
        return (
            recorded["sources"] == source_hash(str(recorded.get("module")))
            and all(weights_hash(name) == value for name, value in recorded.get("weights", {}).items())
            and all(file_hash(_path(name)) == value for name, value in recorded.get("files", {}).items())
        )
    except InputError:  # something that it was measured with is gone
        return False


def mark(document: Mapping[str, Any]) -> str:
    """What to print beside numbers of a document: nothing if it is current, else where they belong."""
    if is_current(document):
        return ""
    recorded = _recorded(document)
    commit = recorded.get("commit")
    if not commit:
        return "of unknown sources"
    return f"at {commit[:7]}{', modified' if recorded.get('clean') is False else ''}"


def commit_of(root: Path | None) -> tuple[str | None, bool | None]:
    """The commit of a checkout and whether its files are those of the commit, as far as these are known.

    The environment variable comes first: a copy of a working tree may carry the git folder of an older commit.
    """
    given = os.environ.get(COMMIT_VARIABLE, "")
    if given:
        if not re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", given):
            raise InputError(f"{COMMIT_VARIABLE}={given!r}: expected a commit, with '-dirty' after it if files differ")
        return given.removesuffix("-dirty"), not given.endswith("-dirty")
    if root is None or not (root / ".git").exists():
        return None, None
    excluded = [f":(exclude){name}" for name in _OUTPUTS]
    commit = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=all", "--", ".", *excluded)
    return (None, None) if commit is None or changes is None else (commit, not changes)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        run = subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):  # no git, no commit yet, or a folder that git does not trust
        return None
    return run.stdout.strip()


def _recorded(document: Mapping[str, Any]) -> Mapping[str, Any]:
    recorded = document.get("provenance")
    return recorded if isinstance(recorded, Mapping) else {}


def _weights_name(name: str | Path) -> str:
    """Without the folder, which says something about one machine only."""
    path = _weights_path(name)
    packaged = path.parent == project_tree().packages["plueckernet"] / "models" / "pretrained"
    return path.stem if packaged else path.name


def _weights_path(name: str | Path) -> Path:
    from plueckernet.models.weights import pretrained_path

    return pretrained_path(name)


def _version(package: str) -> str | None:
    loaded = getattr(sys.modules.get(package), "__version__", None)  # has the build, too: 2.13.0+cpu
    try:
        return str(loaded or version(package))
    except PackageNotFoundError:
        return None


def _path(name: str) -> Path:
    """The file that :meth:`SourceTree.relative` gave this name."""
    package, _, rest = name.partition("/")
    folder = project_tree().packages.get(package)
    if folder is None:
        raise InputError(f"{name}: no file of the project")
    return folder / rest
