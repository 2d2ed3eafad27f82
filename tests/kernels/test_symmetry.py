"""The kernels of symmetries give what the plain functions beside which they are used give."""

import pytest
import torch
from tests.estimation.shapes_for_tests import anchored, corridor, cube, prism, scattered, window_grid
from tests.kernels.helpers import needs_kernels

from plueckernet.estimation import symmetric_motions as motions
from plueckernet.estimation import symmetry
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold
from plueckernet.geometry import LineSet, Pose

THRESHOLD = InlierThreshold(0.05, 0.14)
POLES = torch.tensor([[[0.3 * i, 0.2 * k, -0.3], [0.3 * i, 0.2 * k, 0.3]] for i in range(5) for k in range(3)]).double()
SHAPES = {
    "cube": cube(),
    "prism": prism(6),
    "corridor": corridor(6),
    "grid": window_grid(5, 3),
    "scattered": scattered(300, 0),
    "poles": POLES,
    "one": scattered(1, 0),
    "two": scattered(2, 0),
    "cluttered": torch.cat([prism(6), scattered(60, 0)]),
}

pytestmark = needs_kernels


def map_of(shape: str, infinite: bool) -> AnchoredLines:
    """The lines of a shape, centred and a little noisy, so that no rounding decides."""
    ends = SHAPES[shape]
    ends = ends - ends.mean((0, 1))
    ends = ends + 0.002 * torch.randn(ends.shape, generator=torch.Generator().manual_seed(1), dtype=ends.dtype)
    return AnchoredLines.of(LineSet.from_segments(ends).infinite()) if infinite else anchored(ends)


def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernels in the modules of symmetries."""
    for module in (motions, symmetry):
        monkeypatch.setattr(module, "compiled", lambda *_: False)


def assert_like(poses: Pose, others: Pose, most: float = 1.0) -> None:
    """The same set of poses, but for a few of which rounding decides."""
    assert abs(len(poses.translation) - len(others.translation)) <= (1 - most) * len(others.translation)
    if not len(others.translation):
        return
    entries, other_entries = (torch.cat([p.rotation.flatten(1), p.translation], 1) for p in (poses, others))
    apart = torch.cdist(other_entries.double(), entries.double()).amin(1)
    assert float((apart < 1e-3).double().mean()) >= most


@pytest.mark.parametrize("infinite", [False, True], ids=["segments", "infinite"])
@pytest.mark.parametrize("shape", SHAPES)
def test_candidates_are_those_of_the_plain_search(shape, infinite, monkeypatch):
    lines, settings = map_of(shape, infinite), motions.SymmetrySettings()
    monkeypatch.setattr(motions, "CHECKS", ())  # all of them pass
    given = motions.surviving_motions(lines, THRESHOLD, settings)
    plainly(monkeypatch)
    assert_like(given, motions.surviving_motions(lines, THRESHOLD, settings), 0.98)


@pytest.mark.parametrize(
    "threshold", [THRESHOLD, InlierThreshold(0.05, 0.14, True), InlierThreshold(0.05, 0.14, slope=0.1)]
)
@pytest.mark.parametrize("infinite", [False, True], ids=["segments", "infinite"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_motions_survive(shape, infinite, threshold, monkeypatch):
    lines, settings = map_of(shape, infinite), motions.SymmetrySettings()
    proposed = Pose.random(5, generator=torch.Generator().manual_seed(0), translation=0.1)
    given = motions.surviving_motions(lines, threshold, settings, proposed)
    plainly(monkeypatch)
    plain = motions.surviving_motions(lines, threshold, settings, proposed)
    assert abs(len(given.translation) - len(plain.translation)) <= 0.1 * len(plain.translation)
    for index in range(min(5, len(plain.translation))):
        near = (given.rotation.flatten(1) @ plain.rotation[index].flatten()) > 1 + 2 * 0.98
        near &= (given.translation - plain.translation[index]).norm(dim=-1) < 0.12
        assert bool(near.any())


@pytest.mark.parametrize(
    "threshold", [THRESHOLD, InlierThreshold(0.05, 0.14, True), InlierThreshold(0.05, 0.14, slope=0.1)]
)
@pytest.mark.parametrize("shape", ["cube", "corridor", "scattered", "one"])
def test_poses_are_polished_and_lengths_measured_in_the_same_way(shape, threshold, monkeypatch):
    lines = map_of(shape, infinite=False)
    poses = Pose.exp(0.01 * torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    half = lines.segment_half_length

    def measured() -> tuple[Pose, torch.Tensor]:
        return (
            symmetry.polished_on_maps(poses, lines, lines, threshold),
            symmetry._coinciding_length(poses, lines, half, threshold),
        )

    polished, lengths = measured()
    plainly(monkeypatch)
    plainly_polished, plain_lengths = measured()
    torch.testing.assert_close(polished.matrix(), plainly_polished.matrix(), atol=1e-9, rtol=0)
    torch.testing.assert_close(lengths, plain_lengths, atol=1e-3, rtol=0)


def test_numbers_that_are_not_finite_do_no_harm():
    ends = scattered(50, 0)
    lines = anchored(ends)
    for value in (torch.nan, torch.inf):
        broken = AnchoredLines(lines.lines, lines.anchor.clone(), lines.half_length)
        broken.anchor[::3] = value
        given = motions.surviving_motions(broken, THRESHOLD, motions.SymmetrySettings(), Pose.identity(1))
        assert given.translation.shape[1] == 3
