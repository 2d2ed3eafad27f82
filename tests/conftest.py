"""Settings that hold for every test.

Nothing here imports `plueckernet` at module level: jaxtyping's import hook, through which beartype
checks every signature, is installed after this file loads and has to come before the package.
"""

from collections.abc import Iterator

import pytest
import torch

pytest_plugins = ("tests.plugins.seeding", "tests.plugins.shuffling")

try:
    from hypothesis import settings
except ModuleNotFoundError:  # the tests of the GPU run without it
    pass
else:
    # The same examples on every run and every machine; a slow machine is no failure.
    settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
    settings.load_profile("deterministic")

# The tests already run in parallel, one process per core.
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _loading_weights_draws_nothing() -> Iterator[None]:
    """Undo what a network draws before its weights are loaded.

    `load_pretrained` initialises the network from torch's global generator and then overwrites it. Weights are cached,
    so which test would be blamed depends on the order. Goes once the package leaves the generator alone.
    """
    from plueckernet.models import weights

    build = weights._build

    def forked(*arguments: object) -> torch.nn.Module:
        with torch.random.fork_rng(devices=[]):
            return build(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_build", forked)
        yield
