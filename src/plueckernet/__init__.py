"""Register 3D line maps without an initial guess.

Names are loaded when first used: ``import plueckernet`` costs nothing until then.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from plueckernet.version import __version__

if TYPE_CHECKING:
    from plueckernet.coincidence import coincident_lines
    from plueckernet.errors import DegenerateError, FormatError, InputError, PlueckernetError
    from plueckernet.estimation.judgement import Status
    from plueckernet.estimation.settings import RegistrationSettings
    from plueckernet.extraction import extract_lines
    from plueckernet.geometry import LineSet, Pose, Similarity
    from plueckernet.io import read_lines, write_lines
    from plueckernet.locating import locate
    from plueckernet.matchers import LineMatcher, load_matcher
    from plueckernet.merging import Alignment, align
    from plueckernet.models.weights import load_pretrained
    from plueckernet.registration import refine, register, register_many
    from plueckernet.report import write_report
    from plueckernet.result import RegistrationResult
    from plueckernet.retrieval import LineIndex

_HOMES = {
    "Alignment": "merging",
    "DegenerateError": "errors",
    "FormatError": "errors",
    "InputError": "errors",
    "LineIndex": "retrieval",
    "LineMatcher": "matchers",
    "LineSet": "geometry",
    "PlueckernetError": "errors",
    "Pose": "geometry",
    "RegistrationResult": "result",
    "RegistrationSettings": "estimation.settings",
    "Similarity": "geometry",
    "Status": "estimation.judgement",
    "align": "merging",
    "coincident_lines": "coincidence",
    "extract_lines": "extraction",
    "load_matcher": "matchers",
    "load_pretrained": "models.weights",
    "locate": "locating",
    "read_lines": "io",
    "refine": "registration",
    "register": "registration",
    "register_many": "registration",
    "write_lines": "io",
    "write_report": "report",
}

__all__ = [
    "Alignment",
    "DegenerateError",
    "FormatError",
    "InputError",
    "LineIndex",
    "LineMatcher",
    "LineSet",
    "PlueckernetError",
    "Pose",
    "RegistrationResult",
    "RegistrationSettings",
    "Similarity",
    "Status",
    "__version__",
    "align",
    "coincident_lines",
    "extract_lines",
    "load_matcher",
    "load_pretrained",
    "locate",
    "read_lines",
    "refine",
    "register",
    "register_many",
    "write_lines",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'plueckernet' has no attribute {name!r}")
    return getattr(importlib.import_module(f"plueckernet.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
