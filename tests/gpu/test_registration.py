"""Registration on a GPU finds what it finds on the CPU, and gives it back on the CPU."""

import json

import pytest
import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.data import AnyProtocol, LinePair, ScanProtocol, make_scene, sample_pair, unrelated_pair
from plueckernet.geometry import Pose
from plueckernet.registration import refine, register, register_many
from plueckernet.result import RegistrationResult, Status

pytestmark = pytest.mark.gpu

PROTOCOLS = {
    "scan": ScanProtocol(overlap=0.6),
    "segments": AnyProtocol(segments=True),
    "infinite": AnyProtocol(segments=False),
}


def house(protocol: str = "scan", seed: int = 7) -> LinePair:
    return sample_pair(make_scene("indoor", seed), PROTOCOLS[protocol], seed)


def assert_same(result: RegistrationResult, expected: RegistrationResult) -> None:
    """The status and the pose of the CPU run: RANSAC draws other numbers, refinement converges to one pose."""
    assert result.status is expected.status, (result.reason, expected.reason)
    turn, shift = errors(result.target_T_source, expected.target_T_source)
    assert turn < 0.02
    assert shift < 0.005


@pytest.mark.parametrize("matcher", ["invariant", "descriptors"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_pose_and_status_are_those_of_the_cpu(device, protocol, matcher):
    pair = house(protocol)
    result = register(pair.source, pair.target, matcher=matcher, device=device)
    assert_same(result, register(pair.source, pair.target, matcher=matcher))
    turn, shift = errors(result.target_T_source, pair.target_T_source)
    assert turn < 1
    assert shift < 0.15


def test_the_same_input_gives_the_same_output(device):
    pair = house()
    first, second = (register(pair.source, pair.target, seed=3, device=device) for _ in range(2))
    torch.testing.assert_close(first.target_T_source.matrix(), second.target_T_source.matrix(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("where", ["cpu", "device"])
def test_the_result_is_on_the_cpu_wherever_the_maps_are(device, where, tmp_path):
    pair = house()
    maps = [lines.to(device) if where == "device" else lines for lines in (pair.source, pair.target)]
    result = register(*maps, device=device)
    moved = result.target_T_source @ pair.source
    rows, residuals = result.inliers, result.residuals
    assert moved.direction[rows[:, 0]].shape == pair.target.direction[rows[:, 1]].shape
    poses = [result.target_T_source, *(other.target_T_source for other in result.alternatives)]
    tensors = [rows, residuals, result.matches, result.covariance, result.centre]
    tensors += [value for pose in poses for value in (pose.rotation, pose.translation)]
    assert {tensor.device.type for tensor in tensors} == {"cpu"}
    assert all(sigma > 0 for sigma in result.sigmas())
    result.save(tmp_path / "result.json")
    assert json.loads((tmp_path / "result.json").read_text())["status"] == "success"


def test_unrelated_maps_fail_there_too(device):
    source, target = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), PROTOCOLS["scan"], 0)
    result = register(source, target, device=device)
    assert result.status is register(source, target).status
    assert result.status is not Status.SUCCESS
    json.dumps(result.to_dict(), allow_nan=False)


def test_maps_in_float32(device):
    pair = house()
    maps = [lines.to(torch.float32) for lines in (pair.source, pair.target)]
    result = register(*maps, device=device)
    assert_same(result, register(*maps))
    assert result.target_T_source.rotation.dtype == torch.float64


def test_a_pose_by_hand_is_refined(device):
    pair = house()
    turned = torch.tensor([0.02, -0.01, 0.01, 0.05, 0.05, -0.05], dtype=torch.float64)
    by_hand = Pose.exp(turned) @ pair.target_T_source
    result = refine(pair.source, pair.target, by_hand, device=device)
    assert_same(result, refine(pair.source, pair.target, by_hand))
    assert result.target_T_source.rotation.device.type == "cpu"


def test_many_pairs_of_maps_on_the_gpu(device):
    pairs = [house(seed=seed) for seed in (7, 8)]
    empty = pairs[0].source[torch.arange(0)]
    maps = [(pair.source, pair.target) for pair in pairs] + [(empty, empty)]
    results = register_many([(source.to(device), target.to(device)) for source, target in maps])
    for result, expected in zip(results, register_many(maps), strict=True):
        if expected.target_T_source is None:
            assert (result.status, result.reason) == (expected.status, expected.reason)
        else:
            assert_same(result, expected)
