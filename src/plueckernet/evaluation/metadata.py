"""What a measured number depends on besides the code, written beside every one."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy
import torch

from plueckernet.version import __version__


def metadata() -> dict[str, Any]:
    """Versions and machine."""
    return {
        "plueckernet": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
    }
