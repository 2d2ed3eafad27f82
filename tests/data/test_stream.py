from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.data.datasets import published

from plueckernet.data import make_scene
from plueckernet.data import stream as module
from plueckernet.data.batches import PairBatch
from plueckernet.data.stream import PairStream, StreamSettings, float32_products
from plueckernet.errors import InputError
from plueckernet.geometry import Pose
from plueckernet.io import write_lines
from plueckernet.preparation import prepare

SMALL = StreamSettings(scenes=("room", "city"), sizes=(64,), pool=16, fresh=4, stored=96)


def tensors(batch: PairBatch) -> list[torch.Tensor]:
    sides = [getattr(side, name) for side in (batch.source, batch.target) for name in ("direction", "moment", "mask")]
    return [*sides, batch.correspondence, batch.target_T_source.rotation, batch.target_T_source.translation]


def same(first: PairBatch, second: PairBatch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(tensors(first), tensors(second), strict=True))


def offsets(batch: PairBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Degrees between matched lines and metres from the target's anchor to the moved source's line."""
    pair, i, j = batch.correspondence.nonzero().unbind(-1)
    moved = batch.target_T_source @ batch.source
    direction, moment = moved.direction[pair, i], moved.moment[pair, i]
    angle = (direction * batch.target.direction[pair, j]).sum(-1).abs().clamp(max=1).acos().rad2deg()
    point = batch.target.anchors(batch.target.centre())[pair, j]
    return angle, (torch.linalg.cross(point, direction) - moment).norm(dim=-1)


def test_a_batch_depends_on_its_step_alone() -> None:
    stream = PairStream(SMALL, batch=4)
    first = [stream.batch(step) for step in range(6)]
    assert same(stream.batch(2), first[2]), "going back"
    assert same(PairStream(SMALL, batch=4).batch(5), first[5]), "starting late"
    assert not same(first[0], first[1])
    assert not same(PairStream(SMALL, batch=4, seed=1).batch(0), first[0])


def test_processes_make_the_same_scenes() -> None:
    stream = PairStream(SMALL, batch=4, workers=1)
    try:
        assert same(stream.batch(3), PairStream(SMALL, batch=4).batch(3))
    finally:
        stream.close()


def test_ranks_divide_the_joint_batch() -> None:
    joint = PairStream(SMALL, batch=5).batch(1)
    for rank in range(2):
        batch = PairStream(SMALL, batch=5, rank=rank, world=2).batch(1)
        for whole, some in zip(tensors(joint), tensors(batch), strict=True):
            assert torch.equal(whole[rank::2], some)


def test_larger_maps_come_in_smaller_batches() -> None:
    stream = PairStream(StreamSettings(scenes=("room",), sizes=(32, 64), pool=8, fresh=0, stored=96), batch=8)
    shapes = [stream.batch(step).correspondence.shape for step in range(3)]
    assert shapes == [(8, 32, 32), (2, 64, 64), (8, 32, 32)]


@pytest.mark.parametrize("surveys", [0.0, 1.0])
def test_matches_coincide_under_the_pose(surveys: float) -> None:
    settings = StreamSettings(scenes=("room", "indoor"), sizes=(128,), surveys=surveys, infinite=0.0, pool=32, fresh=0)
    batch = PairStream(settings, batch=24).batch(0)
    angle, distance = offsets(batch)
    assert len(angle) > 200
    assert angle.median() < 3
    assert angle.max() < 15
    assert distance.median() < 0.15
    # Padding has no match, and no pose but the true one does this.
    assert not batch.correspondence[~batch.source.mask].any()
    assert not batch.correspondence.mT[~batch.target.mask].any()
    wrong = PairBatch(batch.source, batch.target, batch.correspondence, Pose.identity(24, dtype=torch.float32))
    assert offsets(wrong)[0].median() > 20


def test_surveys_cover_neighbouring_places_and_subsets_the_same() -> None:
    def spread(surveys: float) -> tuple[float, float]:
        settings = StreamSettings(scenes=("indoor",), sizes=(256,), surveys=surveys, infinite=0.0, pool=32, fresh=0)
        batch = PairStream(settings, batch=32).batch(0)
        back = batch.target_T_source.inverse() @ batch.target
        apart = (back.centre() - batch.source.centre()).norm(dim=-1).median()
        hit = batch.correspondence.any(-1).sum(-1) / batch.source.mask.sum(-1)
        return float(apart), float(hit.std())

    assert spread(1.0)[0] > 3 * spread(0.0)[0]
    assert spread(1.0)[1] > 0.1, "any fraction in common"


def test_a_fraction_of_the_batches_has_no_endpoints() -> None:
    settings = StreamSettings(scenes=("room",), sizes=(32,), infinite=0.25, pool=8, fresh=0, stored=96)
    stream = PairStream(settings, batch=2)
    assert sum(stream.batch(step).source.endpoints is None for step in range(8)) == 2


def test_the_papers_protocol_is_directed_and_turns_little() -> None:
    settings = StreamSettings(protocol="paper", scenes=("indoor",), sizes=(256,), keep=(0.7, 0.7), pool=16, fresh=0)
    batch = PairStream(settings, batch=16).batch(0)
    pair, i, j = batch.correspondence.nonzero().unbind(-1)
    moved = batch.target_T_source @ batch.source
    cosine = (moved.direction[pair, i] * batch.target.direction[pair, j]).sum(-1)
    assert (cosine > 0).all(), "directions are carried over"
    assert cosine.clamp(max=1).acos().rad2deg().median() < 4
    assert (batch.target_T_source.translation.abs() <= 2).all()
    identity = Pose.identity(16, dtype=torch.float32)
    assert batch.target_T_source.angle_to(identity).rad2deg().max() < 80
    fraction = batch.correspondence.any(-1).sum(-1) / batch.source.mask.sum(-1)
    assert abs(float(fraction.mean()) - 0.7) < 0.1


def test_maps_of_the_papers_protocol_are_not_padded_to_the_largest() -> None:
    settings = StreamSettings(protocol="paper", scenes=("room",), sizes=(1000,), keep=(0.7, 0.7), pool=8, fresh=0)
    stream = PairStream(settings, batch=4)
    for step in range(3):
        batch = stream.batch(step)
        assert batch.source.mask.sum(-1).max() <= batch.source.mask.shape[1] < 250
        assert batch.source.mask.shape[1] % 64 == 0


def test_the_noise_of_the_papers_protocol_is_chosen() -> None:
    def spread(noise: str) -> float:
        settings = StreamSettings(protocol="paper", scenes=("room",), noise=noise, pool=8, fresh=0)
        return float(offsets(PairStream(settings, batch=16).batch(0))[0].square().mean().sqrt())

    assert spread("each-axis") / spread("random-axis") == pytest.approx(3**0.5, rel=0.1)


def recorded_folder(folder: Path) -> Path:
    """The pairs of two published folders, prepared."""
    published.authors(folder / "raw" / "structured3D_train", count=5)
    published.authors(folder / "raw" / "structured3D_valid", count=2, seed=1)
    prepare("authors-structured3d", folder / "raw", folder / "out")
    return folder / "out" / "train"


def test_recorded_pairs_are_trained_on_as_recorded(tmp_path: Path) -> None:
    settings = StreamSettings(protocol="recorded", lines=str(recorded_folder(tmp_path)), sizes=(64,))
    batch = PairStream(settings, batch=6).batch(3)
    assert batch.correspondence.shape == (6, 12, 10)
    assert batch.correspondence.sum((1, 2)).tolist() == [8] * 6
    angle, distance = offsets(batch)
    assert angle.max() < 0.1
    assert distance.max() < 1e-4
    assert same(PairStream(settings, batch=6).batch(3), batch)
    thin = PairStream(replace(settings, sizes=(6,)), batch=6).batch(3)
    assert thin.source.mask.sum(-1).max() <= 6
    assert bool((thin.correspondence.sum((1, 2)) == 4).all())  # half of eight
    with pytest.raises(InputError, match="not the train or test folder"):
        PairStream(replace(settings, lines=str(tmp_path)), batch=2).batch(0)


def test_infinite_lines_are_trained_on_with_the_papers_protocol_only(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.npz", make_scene("room", 0).infinite())
    settings = StreamSettings(protocol="paper", lines=str(tmp_path), sizes=(64,), pool=4, fresh=0, stored=256)
    assert offsets(PairStream(settings, batch=2).batch(0))[1].median() < 0.2
    with pytest.raises(InputError, match="needs segments"):
        PairStream(replace(settings, protocol="mixed"), batch=2).batch(0)


def test_a_frame_that_raw_coordinates_cannot_use_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.npz", make_scene("room", 0).shifted(torch.tensor([4e5, 0, 0], dtype=torch.float64)))
    settings = StreamSettings(protocol="paper", lines=str(tmp_path), sizes=(64,), pool=4, fresh=0)
    with pytest.raises(InputError, match="near theirs"):
        PairStream(settings, batch=2).batch(0)


def test_it_trains_on_the_maps_of_a_folder(tmp_path) -> None:
    origin = torch.tensor([4e5, 5e6, 0.0], dtype=torch.float64)
    for seed in range(2):
        write_lines(tmp_path / f"{seed}.obj", make_scene("room", seed).shifted(-origin))
    settings = StreamSettings(lines=str(tmp_path), sizes=(64,), pool=4, fresh=0, stored=256)
    batch = PairStream(settings, batch=4).batch(0)
    assert batch.correspondence.any()
    assert offsets(batch)[1].median() < 0.2


def test_an_empty_folder_is_refused(tmp_path) -> None:
    settings = StreamSettings(lines=str(tmp_path), sizes=(64,), pool=4, fresh=0)
    with pytest.raises(InputError, match="no line maps"):
        PairStream(settings, batch=4).batch(0)


def test_pairs_are_exact_though_training_computes_roughly(monkeypatch) -> None:
    seen = []
    plain = module.paper_batch

    def watched(*arguments: object) -> PairBatch:
        seen.append(torch.get_float32_matmul_precision())
        return plain(*arguments)

    monkeypatch.setattr(module, "paper_batch", watched)
    with float32_products("high"):
        PairStream(replace(SMALL, protocol="paper"), batch=4).batch(0)
        assert torch.get_float32_matmul_precision() == "high"
    assert seen == ["highest"]
