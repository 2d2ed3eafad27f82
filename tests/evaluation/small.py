"""Datasets and weights so small that every experiment runs in seconds."""

from pathlib import Path

import torch

from plueckernet.data import LinePair, PaperProtocol, make_scene, sample_pair
from plueckernet.data.prepared import PairEntry, PreparedIndex, SceneEntry, write_index
from plueckernet.geometry import LineSet
from plueckernet.io import write_lines
from plueckernet.models import InvariantConfig, PlueckerConfig, PoseRegressor, build_matcher
from plueckernet.models.weights import ModelCard, save_pretrained

LINES = 40


def town(seed: int) -> LineSet:
    """Nine scenes in a square: large enough to cut crops from."""
    tiles = [make_scene("outdoor", 10 * seed + i) for i in range(9)]
    places = [torch.tensor([-20.0 * (i % 3), -20.0 * (i // 3), 0.0], dtype=torch.float64) for i in range(9)]
    moved = [tile.shifted(place).endpoints for tile, place in zip(tiles, places, strict=True)]
    return LineSet.from_segments(torch.cat([endpoints for endpoints in moved if endpoints is not None]))


def scenes_folder(folder: Path, kind: str, count: int) -> Path:
    """A prepared dataset of small scenes, all for testing but one."""
    entries = []
    for i in range(count):
        scene = make_scene(kind, 50 + i)
        entry = SceneEntry(f"scene_{i}", "train" if i == count - 1 else "test", LINES)
        (folder / entry.split).mkdir(parents=True, exist_ok=True)
        keep = torch.randperm(len(scene), generator=torch.Generator().manual_seed(i))[:LINES]
        write_lines(folder / entry.file, scene[keep].replaced(ids=None))
        entries.append(entry)
    write_index(folder, PreparedIndex(kind, {}, entries, []))
    return folder


def pairs_folder(folder: Path) -> tuple[Path, LinePair]:
    """A prepared dataset with one recorded pair, and that pair."""
    pair = sample_pair(make_scene("indoor", 2), PaperProtocol(), 0)
    (folder / "test").mkdir(parents=True)
    entries = [SceneEntry(name, "test", len(lines)) for name, lines in (("a", pair.source), ("b", pair.target))]
    for entry, lines in zip(entries, (pair.source, pair.target), strict=True):
        write_lines(folder / entry.file, lines)
    recorded = PairEntry("a", "b", "test", pair.target_T_source.matrix().tolist(), pair.matches.tolist())
    write_index(folder, PreparedIndex("pairs", {}, entries, [recorded]))
    return folder, pair


def weights_folder(folder: Path) -> Path:
    """Untrained networks of two layers under the names of the package's weights."""
    torch.manual_seed(0)
    card = ModelCard("test", "none", "none")
    save_pretrained(folder / "invariant", build_matcher(InvariantConfig(layers=2)), card)
    for domain in ("indoor", "outdoor"):
        for name in (f"pluecker-{domain}", f"pluecker-paper-{domain}"):
            save_pretrained(folder / name, build_matcher(PlueckerConfig(layers=2)), card)
        save_pretrained(folder / f"regression-{domain}", PoseRegressor(PlueckerConfig(layers=2)), card)
    return folder
