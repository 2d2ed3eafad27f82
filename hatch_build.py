"""Compiles the kernels into the wheel; without a C compiler that of Zig, from PyPI, is asked for."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MODULE = Path(__file__).parent / "src/plueckernet/kernels/building.py"


class KernelBuildHook(BuildHookInterface):  # type: ignore[misc] # the package of the base class is not there for mypy
    """Adds the libraries to wheels, which are then of one platform."""

    def dependencies(self) -> list[str]:
        """Zig, where there is no other compiler."""
        return [] if _building().compiler() else ["ziglang"]

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files are collected."""
        libraries = _building().build()
        if not libraries:
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"] += [f"/{path.relative_to(self.root)}" for path in libraries]


def _building() -> Any:
    """The module by its path: the package is not installed while it is built."""
    spec = importlib.util.spec_from_file_location("kernel_building", _MODULE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{_MODULE}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
