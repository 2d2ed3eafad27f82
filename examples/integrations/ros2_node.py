"""A ROS 2 node that registers line maps as they arrive.

It takes two ``visualization_msgs/Marker`` of the type LINE_LIST: ``~/target``, a map that stays, and ``~/source``, a
map to be registered to it. An accepted pose is published as ``~/pose`` with its covariance, and as a transform from the
frame of the target to that of the source. A pose that is not accepted is only logged: a wrong one is worse than none.

    pip install plueckernet                       # into the Python that ROS 2 uses
    python3 ros2_node.py --ros-args -r ~/target:=/map_lines -r ~/source:=/scan_lines
"""

import numpy as np
import rclpy
from geometry_msgs.msg import PoseWithCovarianceStamped, TransformStamped
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_ros import StaticTransformBroadcaster
from visualization_msgs.msg import Marker

import plueckernet as pn


class LineRegistration(Node):
    """Registers each source to the last target."""

    def __init__(self) -> None:
        super().__init__("line_registration")
        self.target: Marker | None = None
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(Marker, "~/target", self.take_target, latched)
        self.create_subscription(Marker, "~/source", self.take_source, 1)
        self.poses = self.create_publisher(PoseWithCovarianceStamped, "~/pose", latched)
        self.transforms = StaticTransformBroadcaster(self)

    def take_target(self, marker: Marker) -> None:
        """Keep the map that stays."""
        self.target = marker
        self.get_logger().info(f"target: {len(marker.points) // 2} lines in {marker.header.frame_id}")

    def take_source(self, marker: Marker) -> None:
        """Register a map and publish the pose if it is accepted."""
        if self.target is None:
            self.get_logger().warning("no target yet")
            return
        try:
            result = pn.register(segments(marker), segments(self.target))
        except pn.PlueckernetError as error:
            self.get_logger().error(str(error))
            return
        if not result:
            self.get_logger().warning(f"{result.status}: {result.reason}")
            return
        self.get_logger().info(f"confidence {result.confidence:.3f}, {len(result.inliers)} inliers")
        self.poses.publish(pose_message(result, self.target.header))
        self.transforms.sendTransform(transform_message(result, self.target.header, marker.header.frame_id))


def segments(marker: Marker) -> np.ndarray:
    """The end points of a LINE_LIST, (n, 2, 3)."""
    points = np.array([(point.x, point.y, point.z) for point in marker.points], dtype=np.float64)
    return points[: len(points) // 2 * 2].reshape(-1, 2, 3)


def pose_message(result: pn.RegistrationResult, header: object) -> PoseWithCovarianceStamped:
    """The pose of the source frame in the target frame. ROS has the position first, in its covariance as well."""
    message = PoseWithCovarianceStamped(header=header)
    fill(result, message.pose.pose.position, message.pose.pose.orientation)
    position_first = [3, 4, 5, 0, 1, 2]
    at_origin = result.covariance_at(result.target_T_source.translation)
    message.pose.covariance = at_origin[position_first][:, position_first].flatten().tolist()
    return message


def transform_message(result: pn.RegistrationResult, header: object, child: str) -> TransformStamped:
    """The transform from the source frame to the target frame."""
    message = TransformStamped(header=header, child_frame_id=child)
    fill(result, message.transform.translation, message.transform.rotation)
    return message


def fill(result: pn.RegistrationResult, position: object, orientation: object) -> None:
    """Write the pose into a message."""
    pose = result.target_T_source
    position.x, position.y, position.z = pose.translation.tolist()
    orientation.w, orientation.x, orientation.y, orientation.z = pose.quaternion().tolist()


def main() -> None:
    """Run until interrupted."""
    rclpy.init()
    rclpy.spin(LineRegistration())


if __name__ == "__main__":
    main()
