"""The regression baseline gives poses, and its loss is the paper's."""

import json

import torch
from tests.models.random_lines import random_lines

from plueckernet.geometry import Pose, stack_lines
from plueckernet.geometry.pose import quaternion_from_rotation
from plueckernet.models import PlueckerConfig, PoseRegressor, regression_loss
from plueckernet.models.regression import HEAD, SHORT_HEAD, RegressedPose
from plueckernet.models.weights import ModelCard, load_pretrained, save_pretrained


def regressor() -> PoseRegressor:
    torch.manual_seed(0)
    return PoseRegressor(PlueckerConfig(layers=2)).eval()


@torch.no_grad()
def test_poses_are_rigid_and_batching_changes_nothing():
    net = regressor()
    sources, targets = [random_lines(9), random_lines(14, 1)], [random_lines(20, 2), random_lines(6, 3)]
    out = net(stack_lines(sources), stack_lines(targets))
    assert (out.quaternion[:, 0] >= 0).all()
    rotation = out.pose().rotation
    torch.testing.assert_close(rotation @ rotation.mT, torch.eye(3).expand(2, 3, 3), atol=1e-5, rtol=0)
    for i in range(2):
        single = net(stack_lines(sources[i : i + 1]), stack_lines(targets[i : i + 1]))
        torch.testing.assert_close(single.quaternion[0], out.quaternion[i], atol=1e-5, rtol=0)
        torch.testing.assert_close(single.translation[0], out.translation[i], atol=1e-5, rtol=1e-5)


def test_the_loss_is_zero_for_the_truth_and_trains():
    truth = Pose.random(3, generator=torch.Generator().manual_seed(0))
    exact = RegressedPose(quaternion_from_rotation(truth.rotation), truth.translation)
    assert regression_loss(exact, truth) < 1e-9
    shifted = exact._replace(translation=exact.translation + torch.tensor([3.0, 4.0, 0.0]))
    torch.testing.assert_close(float(regression_loss(shifted, truth)), 5.0)
    net = regressor()
    regression_loss(net(stack_lines([random_lines(5)]), stack_lines([random_lines(6, 1)])), truth[:1]).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_the_head_has_the_papers_six_layers_and_shipped_weights_still_load(tmp_path):
    torch.manual_seed(0)
    net = PoseRegressor(PlueckerConfig(layers=2))
    shapes = [tuple(layer.weight.shape) for layer in net.regress.linear]
    assert shapes == [(256, 256), (128, 256), (128, 128), (64, 128), (64, 64), (7, 64)]
    assert (load_pretrained("regression-indoor").head, load_pretrained("regression-outdoor").head) == (HEAD, HEAD)
    again = load_pretrained(save_pretrained(tmp_path / "six", net, ModelCard("six", "none", "none")))
    assert again.head == HEAD
    short = PoseRegressor(PlueckerConfig(layers=2), SHORT_HEAD)
    path = save_pretrained(tmp_path / "five", short, ModelCard("five", "none", "none"))
    assert load_pretrained(path).head == SHORT_HEAD
    card = json.loads(path.with_suffix(".json").read_text())
    del card["architecture"]["head"]  # as on cards of version 0.1
    path.with_suffix(".json").write_text(json.dumps(card))
    assert load_pretrained(path).head == SHORT_HEAD
