"""Results to look at: the demo is registered once, and the others are made of its result."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import torch
from tests.cli.helpers import FRIDAY, MONDAY

from plueckernet.estimation.judgement import Status
from plueckernet.geometry import LineSet, Pose
from plueckernet.io import read_lines
from plueckernet.registration import register
from plueckernet.result import Alternative, RegistrationResult


@cache
def demo() -> tuple[RegistrationResult, LineSet, LineSet]:
    """The registration of the two maps of the demo, and the maps."""
    source, target = read_lines(MONDAY), read_lines(FRIDAY)
    return register(source, target), source, target


def failure() -> RegistrationResult:
    """A result of the demo's maps as if no pose had been accepted, with three candidates."""
    result = demo()[0]
    pose = result.target_T_source
    assert pose is not None
    shifts = (0.0, 1.0, 2.0)
    poses = [Pose(pose.rotation, pose.translation + torch.tensor([shift, 0.0, 0.0]).double()) for shift in shifts]
    candidates = tuple(Alternative(other, 0.3 - 0.1 * k, result.evidence) for k, other in enumerate(poses))
    return replace(
        result,
        status=Status.FAILED,
        reason="confidence below 0.9",
        confidence=0.3,
        target_T_source=None,
        covariance=None,
        alternatives=candidates,
    )
