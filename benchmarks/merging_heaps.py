"""Heaps of maps for `benchmarks.merging`: surveys of overlapping pieces of several places, each in its own frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.data import make_scene
from plueckernet.data.scan import Fragments, Survey, survey
from plueckernet.evaluation.crop_pairs import MAX_LINES, MIN_LINES, longest, segments, square
from plueckernet.evaluation.real_maps import read_maps
from plueckernet.geometry import LineSet, Pose, join_lines

SIDE = 10.0  # m of a crop of a real map
STEP = (0.3, 0.5)  # distance of neighbouring crops, in sides
SURVEY = Survey(missing=0.2)
CAMPUS_GRID = (6, 5)  # submaps
CAMPUS_STEP, CAMPUS_SIDE = 22.0, 40.0  # m between neighbouring submaps, and of a submap
TRANSLATION = 30.0  # m
OFFICE_TRANSLATIONS = ((0.0, 0.0, 0.0), (0.338, 0.469, -1.739), (-0.040, 0.464, 0.125), (-0.048, 0.465, -1.737))
FOUR_MAPS = (
    "lidar_lines/corridors_line_3d",
    "line2plane/Barn+haoyu_cut6",
    "line3dpp/2016-06-29_WFULL_sigmaA10__de3f60f",
    "bim/AC20-FZK-Haus_edges",
)
OTHER_MAPS = (
    "lidar_lines/smith_line_3d",
    "line2plane/DJI_cut",
    "line2plane/timber_house_cut",
    "cityjson/rotterdam_subset",
)


@dataclass(frozen=True, eq=False)
class PlacedMap:
    """A map in a random frame, and where it belongs."""

    name: str
    place: str
    lines: LineSet
    map_T_place: Pose


def offices(folder: Path, seed: int = 0) -> list[PlacedMap]:
    """The four sessions of the office, each turned at random."""
    generator = torch.Generator().manual_seed(seed)
    maps = read_folder(folder / "icl_office")
    placed = []
    for row, (path, lines) in enumerate(maps.items()):
        shift = torch.tensor(OFFICE_TRANSLATIONS[row], dtype=torch.float64)
        map_T_place = Pose.random(generator=generator, translation=TRANSLATION)
        session_T_place = Pose(torch.eye(3, dtype=torch.float64), shift)  # session 0 is the place
        placed.append(PlacedMap(path, "icl_office", map_T_place @ lines, map_T_place @ session_T_place))
    return placed


def read_folder(folder: Path) -> dict[str, LineSet]:
    """The maps of a folder as their files have them, by name."""
    from plueckernet.io import read_lines

    return {path.stem: read_lines(path) for path in sorted(folder.iterdir())}


def real_crops(folder: Path, names: tuple[str, ...], count: int, seed: int) -> list[PlacedMap]:
    """That many overlapping crops of each of these maps."""
    maps = read_maps(folder)
    placed = []
    for row, name in enumerate(names):
        generator = torch.Generator().manual_seed(seed + row)
        placed += overlapping_crops(name, maps[name], count, generator)
    return placed


def overlapping_crops(name: str, scene: LineSet, count: int, generator: torch.Generator) -> list[PlacedMap]:
    """Crops of independent surveys; the first at a random line, each other near a random earlier one."""
    centres: list[Float[Tensor, "3"]] = []
    crops: list[PlacedMap] = []
    while len(crops) < count:
        centre = _next_centre(scene, centres, generator)
        turn = math.tau * float(torch.rand((), generator=generator))
        crop = surveyed(scene, centre, SIDE, turn, generator)
        if len(crop) >= 2 * MIN_LINES:
            centres.append(centre)
            crops.append(_moved(f"{name}/{len(crops)}", name, crop, generator))
    return crops


def _next_centre(scene: LineSet, centres: list[Float[Tensor, "3"]], generator: torch.Generator) -> Float[Tensor, "3"]:
    if not centres:
        return scene.midpoints()[int(torch.randint(len(scene), (), generator=generator))].clone()
    base = centres[int(torch.randint(len(centres), (), generator=generator))]
    low, high = STEP
    distance = SIDE * (low + (high - low) * float(torch.rand((), generator=generator)))
    heading = math.tau * float(torch.rand((), generator=generator))
    return base + distance * torch.tensor([math.cos(heading), math.sin(heading), 0.0], dtype=torch.float64)


def surveyed(
    scene: LineSet,
    centre: Float[Tensor, "3"],
    side: float,
    turn: float,
    generator: torch.Generator,
    most: int = MAX_LINES,
) -> Fragments:
    """A survey of a square of the scene; in the frame of the scene."""
    near = (scene.midpoints() - centre)[:, :2].norm(dim=-1) < scene.lengths() / 2 + side
    around = scene[near].replaced(ids=None).shifted(centre)
    if len(around) < MIN_LINES:
        return survey(scene[:1].replaced(ids=None), Survey(missing=1.0), generator)
    crop = longest(square(survey(around, SURVEY, generator), side, turn), most)
    return Fragments(crop.line, crop.span, crop.real, crop.endpoints + centre)


def _moved(name: str, place: str, crop: Fragments, generator: torch.Generator) -> PlacedMap:
    map_T_place = Pose.random(generator=generator, translation=TRANSLATION)
    lines = crop.lines().flipped(torch.rand(len(crop), generator=generator) < 0.5)
    return PlacedMap(name, place, map_T_place @ lines, map_T_place)


def campus(seed: int = 0) -> LineSet:
    """Buildings of about 12 m with windows and rooms, irregularly placed, in metres."""
    rng = np.random.default_rng(seed)
    wide, deep = (CAMPUS_STEP * (count - 1) + CAMPUS_SIDE for count in CAMPUS_GRID)
    pieces = []
    for x in np.arange(-2.0, wide, 19.0):
        for y in np.arange(-2.0, deep, 19.0):
            kind = ("indoor", "outdoor", "city")[int(rng.choice(3, p=(0.5, 0.4, 0.1)))]
            piece = segments(make_scene(kind, int(rng.integers(1 << 30)))).numpy()
            middle = piece.reshape(-1, 3).mean(0) * [1, 1, 0]
            piece = piece - middle
            piece = piece[np.abs(piece).max(axis=(1, 2)) < 14]
            angle = rng.normal(0, 0.15) if rng.random() < 0.6 else rng.uniform(0, np.pi)
            turn = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
            length = np.linalg.norm(piece[:, 1] - piece[:, 0], axis=-1)
            piece = piece[np.argsort(-length)[:260]] @ turn.T
            pieces.append(LineSet.from_segments(piece + np.array([x + rng.normal(0, 2), y + rng.normal(0, 2), 0.0])))
    return join_lines(pieces)


def campus_maps(seed: int = 0) -> list[PlacedMap]:
    """Submaps on a grid, each a survey of its own; neighbours share about 45 % of their area."""
    scene, generator = campus(seed), torch.Generator().manual_seed(seed)
    placed = []
    for row in range(CAMPUS_GRID[0] * CAMPUS_GRID[1]):
        x, y = row % CAMPUS_GRID[0], row // CAMPUS_GRID[0]
        jitter = 2 * torch.randn(2, generator=generator, dtype=torch.float64)
        centre = torch.tensor([x * CAMPUS_STEP + CAMPUS_SIDE / 2, y * CAMPUS_STEP + CAMPUS_SIDE / 2, 0.0]).double()
        centre[:2] += jitter
        turn = 0.3 * float(torch.randn((), generator=generator))
        crop = surveyed(scene, centre, CAMPUS_SIDE, turn, generator, most=900)
        placed.append(_moved(f"campus/{row}", "campus", crop, generator))
    return placed


def unrelated_maps(count: int, seed: int = 0) -> list[PlacedMap]:
    """Surveys of blocks of other towns and of other houses."""
    placed = []
    for row in range(count):
        generator = torch.Generator().manual_seed(1000 * (seed + 1) + row)
        scene = make_scene(("block", "floor")[row % 2], 70_000 + row)
        crop = surveyed(
            scene, scene.centre() * torch.tensor([1.0, 1.0, 0.0]).double(), CAMPUS_SIDE, 0.0, generator, 900
        )
        placed.append(_moved(f"unrelated/{row}", f"unrelated/{row}", crop, generator))
    return placed
