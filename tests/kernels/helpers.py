"""What tests of kernels share."""

from __future__ import annotations

import pytest

from plueckernet.kernels.building import compiler
from plueckernet.kernels.library import compiled

needs_kernels = pytest.mark.skipif(
    compiler() is None and not compiled(), reason="there is no C compiler, so that there are no kernels"
)
