"""The split of scenes into training and test sets."""

from __future__ import annotations

import random
from collections.abc import Sequence

TEST_PERCENT = 15  # 525 of 3,500 houses and 298 of 1,981 cells, as in the paper


def split_names(names: Sequence[str], seed: int) -> dict[str, str]:
    """``train`` or ``test`` for each name; the order of the names does not matter."""
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    tested = -(-TEST_PERCENT * len(shuffled) // 100)  # rounded up
    return {name: "test" if place < tested else "train" for place, name in enumerate(shuffled)}
