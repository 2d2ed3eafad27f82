"""Where the tests of the GPU run.

`PLUECKERNET_GPU_TESTS_ON=cpu` runs them on the CPU, which tests the tests: what they say must hold there, too.
"""

import os

import pytest
import torch


@pytest.fixture(scope="session")
def device() -> str:
    """The GPU; without one the test is skipped."""
    name = os.environ.get("PLUECKERNET_GPU_TESTS_ON", "cuda")
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU is found")
    return name
