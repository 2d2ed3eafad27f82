"""One simulator: a batch of pairs is a loop over pairs, pairs do not drift, and maps keep the fraction ``keep``."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from plueckernet.data import (
    AnyProtocol,
    LinePair,
    PairProtocol,
    PaperProtocol,
    ScanProtocol,
    make_scene,
    sample_pair,
    sample_pairs,
    unrelated_pair,
)
from plueckernet.data.batches import Mixture, PairBatch, SceneBatch, mixed_batch, paper_batch
from plueckernet.data.fragments import correspondence, surveyed_matches
from plueckernet.data.random_source import DeviceGenerator, SceneGenerators
from plueckernet.data.scan import Survey, surveys
from plueckernet.geometry import LineSet
from plueckernet.geometry.lines import stack_lines

PROTOCOLS: dict[str, PairProtocol] = {
    "paper": PaperProtocol(),
    "undirected": PaperProtocol(directed=False),
    "any": AnyProtocol(keep=0.4),
    "segments": AnyProtocol(segments=True),
    "scan": ScanProtocol(overlap=0.4),
    "rich": ScanProtocol(overlap=0.3, survey=Survey(missing=0.3, spurious=0.3, piece=1.0)),
}
# Lines of the source, lines of the target, matches and checksum of the pairs of seeds 0 to 4, as published numbers use
# them. A change means that every published number has to be measured again.
PUBLISHED: dict[tuple[str, str], tuple[int, int, int, float]] = {
    ("indoor", "paper"): (1033, 1033, 723, -754.233580338),
    ("indoor", "undirected"): (1033, 1033, 723, -746.587960703),
    ("indoor", "any"): (591, 591, 250, -425.035031354),
    ("indoor", "segments"): (1033, 1033, 708, 530.920919132),
    ("indoor", "scan"): (1390, 1430, 695, -230.509919404),
    ("indoor", "rich"): (2805, 2417, 1060, 88.038717637),
    ("outdoor", "paper"): (566, 566, 394, -903.905107214),
    ("outdoor", "undirected"): (566, 566, 394, -850.099048613),
    ("outdoor", "any"): (324, 324, 135, -330.271720463),
    ("outdoor", "segments"): (566, 566, 401, -1356.951705940),
    ("outdoor", "scan"): (725, 586, 306, 518.019439526),
    ("outdoor", "rich"): (1007, 1158, 418, -746.716730229),
    ("truss", "paper"): (2173, 2173, 1524, -5717.384276732),
    ("truss", "undirected"): (2173, 2173, 1524, -5856.566293195),
    ("truss", "any"): (1241, 1241, 513, -487.621446337),
    ("truss", "segments"): (2173, 2173, 1537, -8908.285612206),
    ("truss", "scan"): (3337, 3963, 1864, 3350.640570586),
    ("truss", "rich"): (8011, 8059, 3343, 24091.784096369),
}


def tensors_of(pair: LinePair) -> list[Tensor]:
    maps = [values for side in (pair.source, pair.target) for values in (side.direction, side.moment, side.endpoints)]
    pose = pair.target_T_source
    return [*(values for values in maps if values is not None), pose.rotation, pose.translation]


def checksum(tensors: Sequence[Tensor]) -> float:
    values = torch.cat([tensor.double().flatten() for tensor in tensors])
    return float((values * torch.arange(1.0, len(values) + 1, dtype=torch.float64).sin()).sum())


def fingerprint(kind: str, protocol: PairProtocol) -> tuple[int, int, int, float]:
    pairs = [sample_pair(make_scene(kind, seed), protocol, seed + 10) for seed in range(5)]
    counts = [sum(map(len, side)) for side in zip(*((p.source, p.target, p.matches) for p in pairs), strict=True)]
    total = sum(checksum([*tensors_of(pair), pair.matches]) for pair in pairs)
    return counts[0], counts[1], counts[2], total


def padded(scenes: Sequence[LineSet]) -> SceneBatch:
    stacked = stack_lines(scenes)
    return SceneBatch(stacked.endpoints, stacked.mask)


def generators(seeds: Sequence[int]) -> SceneGenerators:
    return SceneGenerators([torch.Generator().manual_seed(seed) for seed in seeds])


def assert_same_batch(batch: PairBatch, loop: Sequence[PairBatch]) -> None:
    """To within what sums over padding may round differently."""
    for side in ("source", "target"):
        whole, single = getattr(batch, side), [getattr(pair, side) for pair in loop]
        for name in ("direction", "moment", "endpoints", "mask"):
            values = [getattr(lines, name) for lines in single]
            assert (getattr(whole, name) is None) == any(value is None for value in values)
            if values[0] is not None:
                torch.testing.assert_close(getattr(whole, name), torch.cat(values), atol=1e-11, rtol=0)
    assert torch.equal(batch.correspondence, torch.cat([pair.correspondence for pair in loop]))
    for name in ("rotation", "translation"):
        values = [getattr(pair.target_T_source, name) for pair in loop]
        torch.testing.assert_close(getattr(batch.target_T_source, name), torch.cat(values), atol=1e-12, rtol=0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ["indoor", "outdoor", "truss"])
def test_pairs_are_those_of_the_published_numbers(kind, protocol):
    *counts, total = fingerprint(kind, PROTOCOLS[protocol])
    *published, published_total = PUBLISHED[kind, protocol]
    assert counts == published
    assert total == pytest.approx(published_total, abs=1e-7)


def test_unrelated_pairs_are_those_of_the_published_numbers():
    maps = unrelated_pair(make_scene("indoor", 1), make_scene("outdoor", 1), ScanProtocol(), 0)
    assert [len(lines) for lines in maps] == [360, 121]
    assert checksum([lines.endpoints for lines in maps]) == pytest.approx(42.449934544, abs=1e-7)


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_batch_of_pairs_is_a_loop_over_pairs(protocol):
    scenes = [make_scene(kind, seed) for seed, kind in enumerate(("room", "indoor", "outdoor", "truss"))]
    seeds = [3, 1, 4, 1]
    for number, pair in enumerate(sample_pairs(scenes, protocol, seeds)):
        separate = sample_pair(scenes[number], protocol, seeds[number])
        assert torch.equal(pair.matches, separate.matches)
        for batched, single in zip(tensors_of(pair), tensors_of(separate), strict=True):
            torch.testing.assert_close(batched, single, atol=1e-11, rtol=0)


def test_infinite_scenes_are_a_loop_too():
    scenes = [make_scene("room", seed).infinite() for seed in range(3)]
    for number, pair in enumerate(sample_pairs(scenes, AnyProtocol(), [0, 1, 2])):
        separate = sample_pair(scenes[number], AnyProtocol(), number)
        torch.testing.assert_close(pair.target.moment, separate.target.moment, atol=1e-9, rtol=0)


SCENES = [make_scene(kind, 2) for kind in ("room", "indoor", "outdoor", "city")]


@pytest.mark.parametrize("lines", [48, 2000])
def test_a_training_batch_of_the_papers_protocol_is_a_loop(lines):
    batch = paper_batch(padded(SCENES), lines, (0.5, 0.9), generators(range(4)))
    loop = [paper_batch(padded([scene]), lines, (0.5, 0.9), generators([k])) for k, scene in enumerate(SCENES)]
    assert_same_batch(batch, loop)
    assert bool(batch.correspondence.any((-1, -2)).all())


MIXTURES = {
    "subsets": Mixture((0.4, 0.9), 0.0),
    "mixed": Mixture((0.4, 0.9), 0.5),
    "surveys": Mixture((0.4, 0.9), 1.0),
    "hard": Mixture((0.4, 0.9), 0.7, remote=0.5, sparse=0.5),
}


@pytest.mark.parametrize("mixture", MIXTURES.values(), ids=MIXTURES.keys())
@pytest.mark.parametrize("infinite", [False, True])
def test_a_mixed_training_batch_is_a_loop(mixture, infinite):
    settings = (96, mixture, infinite)
    batch = mixed_batch(padded(SCENES), *settings, generators(range(4)))
    loop = [mixed_batch(padded([scene]), *settings, generators([k])) for k, scene in enumerate(SCENES)]
    assert_same_batch(batch, loop)
    assert bool(batch.correspondence.any((-1, -2)).any())


def test_training_and_tests_draw_the_same_pairs_of_the_papers_protocol():
    """A training batch with room for all lines; its first random numbers are ``keep`` and the order of the lines."""
    scene, keep = SCENES[0], 0.7
    batch = paper_batch(padded([scene]), len(scene), (keep, keep), generators([5]))
    generator = torch.Generator().manual_seed(5)
    torch.rand(1, generator=generator, dtype=torch.float64)
    shuffled = scene[torch.randperm(len(scene), generator=generator)]
    pair = sample_pair(shuffled, PaperProtocol(keep=keep), generator)
    torch.testing.assert_close(batch.source.moment[batch.source.mask], pair.source.moment, atol=1e-12, rtol=0)
    torch.testing.assert_close(batch.target.moment[batch.target.mask], pair.target.moment, atol=1e-12, rtol=0)
    assert torch.equal(batch.correspondence[0].nonzero(), pair.matches)


def test_matches_of_large_maps_are_those_of_all_comparisons():
    scenes, random = stack_lines(SCENES), generators(range(4))
    source, target = (surveys(scenes, Survey(piece=1.0), random) for _ in range(2))
    scene, i, j = correspondence(source, target).nonzero().unbind(-1)
    flat = torch.stack([scene * source.real.shape[1] + i, scene * target.real.shape[1] + j], -1)
    matches = surveyed_matches(source, target)
    assert len(flat) > 100
    assert torch.equal(flat, matches[(matches[:, 0] * target.real.numel() + matches[:, 1]).argsort()])


@pytest.fixture(scope="module")
def large_scenes() -> list[LineSet]:
    """Eight outdoor cells of 1024 lines, as many as training stores."""
    scenes = (make_scene("outdoor", seed) for seed in range(100))
    return [scene[:1024] for scene in scenes if len(scene) > 1024][:8]


def fractions_in_common(batch: PairBatch) -> Tensor:
    matched = batch.correspondence.any(-1).sum(-1) + batch.correspondence.any(-2).sum(-1)
    return matched / (batch.source.mask.sum(-1) + batch.target.mask.sum(-1))


@pytest.mark.parametrize("keep", [0.3, 0.7, 1.0])
@pytest.mark.parametrize("protocol", ["paper", "mixed"])
def test_training_maps_of_large_scenes_have_in_common_what_the_protocol_says(large_scenes, protocol, keep):
    batch = padded([scene.to(torch.float32) for scene in large_scenes])
    random = DeviceGenerator(torch.Generator().manual_seed(0), len(batch))
    if protocol == "paper":
        pairs = paper_batch(batch, 256, (keep, keep), random)
    else:
        pairs = mixed_batch(batch, 256, Mixture((keep, keep), 0.0), False, random)
    single = [pair.common for pair in sample_pairs(large_scenes, PaperProtocol(keep=keep), range(8))]
    common = fractions_in_common(pairs)
    # Maps cut to 256 lines after keeping 0.7 of 1024 would have 0.25 in common.
    assert float(common.mean()) == pytest.approx(sum(single) / len(single), abs=0.03)
    assert float((common - keep).abs().max()) < 0.2
    if protocol == "paper":
        assert pairs.source.mask.sum(-1).tolist() == pytest.approx([256] * 8, abs=1)


def surveyed(scenes: list[LineSet], **settings: float) -> PairBatch:
    """Many surveys of each scene."""
    batch = padded([scene for scene in scenes for _ in range(16)])
    return mixed_batch(batch, 200, Mixture(surveys=1.0, **settings), False, generators(range(len(batch))))


def test_remote_surveys_have_less_in_common_and_sparse_ones_fewer_lines(large_scenes):
    usual, remote, sparse = (surveyed(large_scenes, **{name: 1.0} if name else {}) for name in ("", "remote", "sparse"))
    assert float(fractions_in_common(remote).mean()) < 0.6 * float(fractions_in_common(usual).mean())
    counts = [batch.source.mask.sum(-1).double() for batch in (usual, sparse)]
    assert float(counts[1].mean()) < 0.6 * float(counts[0].mean())
    assert float(counts[1].min()) >= 12  # a sparse map is still a map
    lengths = [batch.source.lengths()[batch.source.mask].median() for batch in (usual, sparse)]
    assert lengths[1] > lengths[0]


@pytest.mark.parametrize("protocol", ["paper", "mixed"])
def test_training_batches_are_made_on_the_device_of_their_generator(protocol):
    """Tensors made without a device would be on the default one, which cannot be mixed with others."""
    scenes = padded([scene.to(torch.float32) for scene in SCENES])
    random = DeviceGenerator(torch.Generator().manual_seed(0), len(scenes))
    with torch.device("meta"):
        if protocol == "paper":
            pairs = paper_batch(scenes, 2000, (0.3, 0.9), random)
        else:
            pairs = mixed_batch(scenes, 64, Mixture((0.3, 0.9), 0.5), True, random)
    assert pairs.correspondence.device == pairs.source.direction.device == torch.device("cpu")
