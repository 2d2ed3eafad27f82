"""Pose and scale are refined together, and their covariance has seven dimensions."""

import math

import pytest
import torch
from tests.estimation.similarity.test_scale_votes import scene

from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.refinement import RefinementSettings, complete_refinement, refine_pose
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.similarity.joint import (
    crossings,
    joint_step,
    original_change,
    refine_similarity,
    with_scale_column,
)
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.geometry.pose import skew
from plueckernet.geometry.residuals import NoiseModel, line_residuals, variances, whitened

SETTINGS = RegistrationSettings(position_noise=0.01, direction_noise=0.3)
TRUTH = Similarity.from_pose(Pose.random(generator=torch.Generator().manual_seed(5), translation=3.0), 2.5)


def observed(seed: int) -> tuple[LineSet, LineSet]:
    """A scene and its scaled copy, each with noise of 1 cm in the unit of the target."""
    generator = torch.Generator().manual_seed(seed)
    ends = [lines.endpoints for lines in (scene(), TRUTH @ scene())]
    noise = [sigma * torch.randn(ends[0].shape, generator=generator, dtype=torch.float64) for sigma in (0.004, 0.01)]
    source, target = (LineSet.from_segments(side + error) for side, error in zip(ends, noise, strict=True))
    return source, target


def test_the_column_of_the_scale_is_the_derivative() -> None:
    source, target = (AnchoredLines.of(side) for side in observed(1))
    grown = Similarity.from_pose(Pose.identity(), 2.5) @ source.lines
    moved = AnchoredLines.of(grown)
    sigma = NoiseModel(0.05).sigmas(grown)

    def value(log_scale: float) -> torch.Tensor:
        # About the origin of the target: R x + t becomes e^sigma (R x + t).
        factor = math.exp(log_scale)
        side = AnchoredLines.of(Similarity.from_pose(Pose.identity(), factor) @ grown)
        pose = Pose(TRUTH.rotation, factor * TRUTH.translation)
        residuals = line_residuals(pose, side.lines, target.lines, side.anchor, target.anchor)
        return whitened(residuals, *parts[:1], *parts[1:])[0]

    residuals = line_residuals(TRUTH.pose, moved.lines, target.lines, moved.anchor, target.anchor)
    parts = variances(residuals, sigma, sigma)
    jacobian = whitened(residuals, *parts)[1]
    column = with_scale_column(residuals, jacobian, crossings(TRUTH.pose, residuals, moved, target), parts[1])[..., 6]
    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    torch.testing.assert_close(column, numeric, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("start", [0.97, 1.02])
def test_the_scale_is_refined_with_the_pose(start: float) -> None:
    source, target = observed(2)

    def maps_at(scale: float) -> MapPair:
        return SETTINGS.normalize(Similarity.from_pose(Pose.identity(), scale) @ source, target)

    # A wrong scale moves the map as a whole unless it is about its middle.
    centre = TRUTH @ source.centre()[None]
    shift = (centre - start * (centre - TRUTH.translation))[0]
    motion = Similarity(start * TRUTH.scale, TRUTH.rotation, shift)
    refined = refine_similarity(motion, maps_at, SETTINGS.known_noise, RefinementSettings())
    maps = maps_at(float(refined.scale))
    best = complete_refinement(
        refine_pose(maps.normalized_pose(refined.pose), maps.source, maps.target, maps.threshold), maps
    )
    step = joint_step(best, maps, RefinementSettings(), estimated=True)
    sigma = math.sqrt(float(step.original_covariance(maps)[6, 6]))
    assert abs(math.log(float(refined.scale) / 2.5)) < 4 * sigma
    assert 1e-4 < sigma < 5e-3


def test_the_change_of_frame_moves_points_alike() -> None:
    """A motion in normalized units is the same motion of points in the original frame."""
    maps = SETTINGS.normalize(*observed(3))
    xi = torch.tensor([0.1, -0.2, 0.3, 0.4, 0.5, -0.6, 0.7], dtype=torch.float64)
    original = original_change(maps) @ xi
    point = torch.tensor([3.0, -2.0, 1.0], dtype=torch.float64)
    normalized = (point - maps.target_offset) / maps.unit
    moved = maps.unit * (skew(xi[:3]) @ normalized + xi[3:6] + xi[6] * normalized)
    torch.testing.assert_close(skew(original[:3]) @ point + original[3:6] + original[6] * point, moved)
