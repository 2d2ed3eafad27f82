"""Settings that hold for every test.

Nothing here imports `plueckernet` at module level: jaxtyping's import hook, through which beartype
checks every signature, is installed after this file loads and has to come before the package.
"""

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
