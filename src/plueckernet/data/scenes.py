"""Scenes by name, for training, benchmarks and examples."""

from collections.abc import Callable

import numpy as np

from plueckernet.data.indoor import HouseStyle, indoor_scene
from plueckernet.data.outdoor import TownStyle, outdoor_scene
from plueckernet.data.primitives import to_lines, to_segments
from plueckernet.data.reconstruction import reconstructed
from plueckernet.data.structures import city_scene, drawing_scene, truss_scene
from plueckernet.errors import InputError
from plueckernet.geometry import LineSet

ROOM_STYLE = HouseStyle(width=4.5, depth=4.0, lines=(40, 250), lines_per_room=200.0)
FLOOR_STYLE = HouseStyle(width=32.0, depth=20.0, lines=(300, 2500), lines_per_room=70.0)
BLOCK_STYLE = TownStyle(
    size=40.0, lines=(200, 8000), sparse=(700.0, 0.7), dense=(2500.0, 0.6), dense_fraction=0.85, height=20.0
)
STREET_STYLE = TownStyle(
    size=60.0,
    lines=(12_000, 80_000),
    sparse=(24_000.0, 0.3),
    dense=(28_000.0, 0.3),
    dense_fraction=0.85,
    height=20.0,
)


def make_scene(kind: str, seed: int) -> LineSet:
    """The scene of a kind and a seed, as segments in metres; :data:`SCENES` lists the kinds."""
    if kind not in SCENES:
        raise InputError(f"unknown kind of scene {kind!r}; there are {', '.join(SCENES)}")
    return SCENES[kind](seed)


def _one_of(*kinds: str) -> Callable[[int], LineSet]:
    def scene(seed: int) -> LineSet:
        # A separate random stream; otherwise the choice would depend on the first number that the scene draws.
        kind = kinds[int(np.random.default_rng([seed, len(kinds)]).integers(len(kinds)))]
        return make_scene(kind, seed)

    return scene


def _reconstruction(seed: int) -> LineSet:
    segments = to_segments(make_scene("built", seed))
    return to_lines(reconstructed(segments, np.random.default_rng([seed, 1])))


SCENES: dict[str, Callable[[int], LineSet]] = {
    "indoor": indoor_scene,  # a house
    "outdoor": outdoor_scene,  # a 10 m cell of a town
    "room": lambda seed: indoor_scene(seed, ROOM_STYLE),
    "floor": lambda seed: indoor_scene(seed, FLOOR_STYLE),  # of an office building
    "block": lambda seed: outdoor_scene(seed, BLOCK_STYLE),  # 40 m of a town
    "street": lambda seed: outdoor_scene(seed, STREET_STYLE),  # 60 m of it, as dense as a vehicle's sensors see it
    "mixed": _one_of("indoor", "outdoor"),
    "city": city_scene,  # plain solids
    "truss": truss_scene,  # hardly two lines parallel
    "drawing": drawing_scene,  # many small edges
    "built": _one_of("indoor", "outdoor", "room", "floor", "block", "city", "truss", "drawing"),
    "reconstruction": _reconstruction,  # a photogrammetric map of any of them
    "varied": _one_of(
        "indoor", "outdoor", "room", "floor", "block", "city", "truss", "drawing", *["reconstruction"] * 4
    ),
}
