"""Graphs of maps for other solvers: g2o files and GTSAM factor graphs.

The nodes are the maps about their ``centres``, in ``units`` (see align.json), so that numbers stay small. Both have
the covariance of ``xi`` in ``Z exp(xi)``, that is in the frame of the source; ours is that of ``exp(xi) Z``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import InputError, MissingDependencyError, printable
from plueckernet.geometry.pose import quaternion_from_rotation
from plueckernet.merging import sim3
from plueckernet.merging.alignment import AlignedEdge, AlignedGroup, Alignment

if TYPE_CHECKING:
    import gtsam

_ANCHOR_SIGMA = 1e-6  # of the prior that holds the reference in GTSAM


def g2o_text(alignment: Alignment, group: AlignedGroup) -> str:
    """The graph of a rigid group: vertices numbered as its maps, the reference first and fixed.

    The information is that of translation and rotation vector, in this order, as GTSAM and SE-Sync read it.
    """
    if not alignment.rigid:
        raise InputError("g2o: similarities have no common format; use the GTSAM export")
    poses = centred_poses(alignment, group)
    lines = [f"# {number} {printable(name)}" for number, name in enumerate(group.maps)]
    lines += [f"VERTEX_SE3:QUAT {number} {_pose_text(pose)}" for number, pose in enumerate(poses.values())]
    lines.append("FIX 0")
    place = {name: number for number, name in enumerate(group.maps)}
    for edge in alignment.accepted_edges(group):
        information = torch.linalg.inv(source_covariance(alignment, edge)[:6, :6])
        order = torch.tensor([3, 4, 5, 0, 1, 2])
        upper = information[order][:, order][tuple(torch.triu_indices(6, 6))]
        ends = f"{place[edge.target]} {place[edge.source]}"
        lines.append(f"EDGE_SE3:QUAT {ends} {_pose_text(alignment.centred(edge))} {_numbers(upper)}")
    return "\n".join(lines) + "\n"


def to_gtsam(alignment: Alignment, group: AlignedGroup) -> tuple[gtsam.NonlinearFactorGraph, gtsam.Values]:
    """The graph of a group and its poses, with a prior on the reference; keys are the numbers of the maps."""
    try:
        import gtsam
    except ImportError as error:
        raise MissingDependencyError("gtsam", "merge") from error
    size, kind = (6, "Pose3") if alignment.rigid else (7, "Similarity3")
    between, prior = getattr(gtsam, f"BetweenFactor{kind}"), getattr(gtsam, f"PriorFactor{kind}")
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    poses = {name: _gtsam_pose(pose, alignment.rigid) for name, pose in centred_poses(alignment, group).items()}
    for key, pose in enumerate(poses.values()):
        values.insert(key, pose)
    graph.add(prior(0, poses[group.maps[0]], gtsam.noiseModel.Isotropic.Sigma(size, _ANCHOR_SIGMA)))
    place = {name: number for number, name in enumerate(group.maps)}
    for edge in alignment.accepted_edges(group):
        noise = gtsam.noiseModel.Gaussian.Covariance(source_covariance(alignment, edge)[:size, :size].numpy())
        pose = _gtsam_pose(alignment.centred(edge), alignment.rigid)
        graph.add(between(place[edge.target], place[edge.source], pose, noise))
    return graph, values


def centred_poses(alignment: Alignment, group: AlignedGroup) -> dict[str, Float[Tensor, "4 4"]]:
    """``reference_T_map`` of the maps about their centres."""
    reference = sim3.inverse(alignment.frame(group.maps[0]))
    return {name: reference @ pose.matrix() @ alignment.frame(name) for name, pose in group.poses.items()}


def source_covariance(alignment: Alignment, edge: AlignedEdge) -> Float[Tensor, "7 7"]:
    """The covariance of an accepted edge in the frame of its source."""
    if edge.covariance is None:
        raise InputError(f"{edge.source} to {edge.target}: this edge was not accepted")
    return sim3.moved_covariance(sim3.inverse(alignment.centred(edge)), edge.covariance)


def _gtsam_pose(matrix: Float[Tensor, "4 4"], rigid: bool) -> gtsam.Pose3 | gtsam.Similarity3:
    import gtsam

    scale = sim3.scales(matrix)
    rotation = gtsam.Rot3((matrix[:3, :3] / scale).numpy())
    if rigid:
        return gtsam.Pose3(rotation, matrix[:3, 3].numpy())
    # GTSAM's similarity is x -> s (R x + t).
    return gtsam.Similarity3(rotation, (matrix[:3, 3] / scale).numpy(), float(scale))


def _pose_text(matrix: Float[Tensor, "4 4"]) -> str:
    """Translation and quaternion, real part last."""
    quaternion = quaternion_from_rotation(matrix[:3, :3])
    return _numbers(torch.cat([matrix[:3, 3], quaternion[1:], quaternion[:1]]))


def _numbers(values: Tensor) -> str:
    return " ".join(repr(float(value)) for value in values.flatten())
