"""The examples for other programs: the ROS 2 node with stand-ins for ROS, Rerun where it is installed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from tests.cli.helpers import FRIDAY, MONDAY, chaos, house

import plueckernet as pn
from plueckernet.geometry.pose import rotation_from_quaternion

INTEGRATIONS = Path(__file__).parents[1] / "examples" / "integrations"
TRUTH = pn.Pose.random(generator=torch.Generator().manual_seed(1), translation=10.0)


class Message(SimpleNamespace):
    """A message of ROS: its fields exist from the beginning."""

    def __getattr__(self, name: str) -> Message:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, Message())
        return getattr(self, name)


class Recorder:
    """A node, publisher and broadcaster that keeps what it is given."""

    def __init__(self, *_: object) -> None:
        self.sent: list[Message] = []
        self.logged: list[str] = []

    def create_publisher(self, *_: object) -> Recorder:
        return Recorder()

    def create_subscription(self, *_: object) -> None:
        pass

    def get_logger(self) -> SimpleNamespace:
        return SimpleNamespace(info=self.logged.append, warning=self.logged.append, error=self.logged.append)

    def publish(self, message: Message) -> None:
        self.sent.append(message)

    sendTransform = publish  # noqa: N815


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """The node of the example, with a matcher that needs no network."""
    quality = {"QoSProfile": lambda **_: None, "DurabilityPolicy": Message()}
    modules = {
        "rclpy": {}, "rclpy.node": {"Node": Recorder}, "rclpy.qos": quality,
        "geometry_msgs": {}, "visualization_msgs": {},
        "geometry_msgs.msg": {"PoseWithCovarianceStamped": Message, "TransformStamped": Message},
        "visualization_msgs.msg": {"Marker": Message}, "tf2_ros": {"StaticTransformBroadcaster": Recorder},
    }  # fmt: skip
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    register = pn.register
    monkeypatch.setattr(pn, "register", lambda *maps: register(*maps, matcher="descriptors"))
    return runpy.run_path(str(INTEGRATIONS / "ros2_node.py"))["LineRegistration"]()


def marker(lines: pn.LineSet, frame: str) -> Message:
    points = [Message(x=x, y=y, z=z) for x, y, z in lines.endpoints.reshape(-1, 3).tolist()]
    return Message(points=points, header=Message(frame_id=frame))


def test_the_ros_node_publishes_an_accepted_pose(node) -> None:
    node.take_source(marker(house(), "scan"))
    assert node.logged == ["no target yet"]
    node.take_target(marker(TRUTH @ house(), "map"))
    node.take_source(marker(house(), "scan"))
    (transform,), (pose,) = node.transforms.sent, node.poses.sent
    assert (transform.header.frame_id, transform.child_frame_id, pose.header.frame_id) == ("map", "scan", "map")
    shift, turn = transform.transform.translation, transform.transform.rotation
    torch.testing.assert_close(torch.tensor([shift.x, shift.y, shift.z]).double(), TRUTH.translation, atol=1e-3, rtol=0)
    rotation = rotation_from_quaternion(torch.tensor([turn.w, turn.x, turn.y, turn.z]).double())
    torch.testing.assert_close(rotation, TRUTH.rotation, atol=1e-4, rtol=0)
    covariance = np.array(pose.pose.covariance).reshape(6, 6)
    assert (np.linalg.eigvalsh(covariance) > -1e-12).all()


def test_the_ros_node_publishes_nothing_else(node) -> None:
    node.take_target(marker(house(), "map"))
    node.take_source(marker(chaos(30, seed=2), "scan"))
    node.take_source(Message(points=[], header=Message(frame_id="scan")))
    assert node.transforms.sent == node.poses.sent == []
    assert len(node.logged) == 3


def test_a_registration_is_logged_to_rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed")
    register = pn.register
    monkeypatch.setattr(pn, "register", lambda *maps: register(*maps, matcher="descriptors"))
    recording = tmp_path / "registration.rrd"
    monkeypatch.setattr(sys, "argv", ["rerun_log.py", str(MONDAY), str(FRIDAY), "--save", str(recording)])
    runpy.run_path(str(INTEGRATIONS / "rerun_log.py"), run_name="__main__")
    assert recording.stat().st_size > 10_000
