"""Lines from rendered images whose geometry is known."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

from plueckernet.errors import MissingDependencyError, ShapeError
from plueckernet.extraction import Intrinsics, RgbdSettings, extract_rgbd
from plueckernet.extraction.extracted import SegmentArrays
from plueckernet.extraction.rgbd import image_segments

cv2 = pytest.importorskip("cv2", reason="opencv is not installed")

CAMERA = Intrinsics(500.0, 510.0, 320.0, 240.0)
HEIGHT, WIDTH = 480, 640
ROW, COLUMN = np.mgrid[:HEIGHT, :WIDTH].astype(float)
RAYS = np.stack([(COLUMN - 320) / 500, (ROW - 240) / 510, np.ones_like(ROW)], axis=-1)


def plane_depth(normal: tuple[float, float, float], offset: float) -> np.ndarray:
    return offset / (RAYS @ np.array(normal))


def card(left: int, right: int, top: int, bottom: int) -> tuple[np.ndarray, np.ndarray]:
    """A bright rectangle on dark ground, and where it is."""
    inside = (left <= COLUMN) & (right > COLUMN) & (top <= ROW) & (bottom > ROW)
    return np.where(inside, 200, 40).astype(np.uint8), inside


def sides(ends: np.ndarray, axis: int) -> np.ndarray:
    """Segments along an axis of the image."""
    span = np.abs(ends[:, 1] - ends[:, 0])
    return ends[span[:, axis] > 0.9 * np.linalg.norm(span, axis=1)]


@pytest.mark.parametrize("detector", ["edlines", "lsd"])
def test_a_picture_on_a_slanted_wall(detector: str) -> None:
    """The four sides of a picture on a plane lie in the plane, on the rays of its corners."""
    normal = (0.4, -0.2, 0.9)
    image, _ = card(200, 440, 150, 330)
    depth = plane_depth(normal, 2.0)
    result = extract_rgbd(image, depth, CAMERA, RgbdSettings(detector=detector))
    assert len(result) >= 4
    np.testing.assert_allclose(result.endpoints @ np.array(normal), 2.0, atol=2e-3)
    assert (result.residual < 5e-3).all()
    pixels = result.endpoints @ CAMERA.matrix().T
    pixels = pixels[..., :2] / pixels[..., 2:]
    on_side = [np.abs(pixels[:, :, axis] - value).max(axis=1) < 2 for axis, value in
               ((0, 199.5), (0, 439.5), (1, 149.5), (1, 329.5))]  # fmt: skip
    assert np.any(on_side, axis=1).all()
    assert np.any(on_side, axis=0).all()


def test_an_edge_before_the_background_is_on_the_nearer_side() -> None:
    image, inside = card(220, 420, 140, 340)
    depth = np.where(inside, 1.2, 3.0)
    result = extract_rgbd(image, depth, CAMERA)
    assert len(result) >= 4
    np.testing.assert_allclose(result.endpoints[..., 2], 1.2, atol=5e-3)


def test_an_edge_beside_missing_depth_is_on_the_known_side() -> None:
    """Structured light leaves a shadow without depth beside near objects."""
    image, inside = card(220, 420, 140, 340)
    depth = np.where(inside, 1.2, 3.0)
    depth[(COLUMN >= 200) & (COLUMN < 220)] = 0.0
    depth[(COLUMN >= 420) & (COLUMN < 440)] = np.nan
    result = extract_rgbd(image, depth, CAMERA)
    upright = sides(result.endpoints, 1)
    assert len(upright) >= 2
    np.testing.assert_allclose(upright[..., 2], 1.2, atol=5e-3)


def test_bad_fits_are_dropped() -> None:
    image, _ = card(200, 440, 150, 330)
    bent = 2.0 + 0.5 * np.sin(COLUMN / 15) * np.sin(ROW / 15)
    assert len(extract_rgbd(image, bent, CAMERA)) == 0
    assert len(extract_rgbd(image, np.zeros((HEIGHT, WIDTH)), CAMERA)) == 0
    assert len(extract_rgbd(image, np.full((HEIGHT, WIDTH), 9.0), CAMERA)) == 0  # more than the largest depth


def test_a_third_of_wrong_depths_does_no_harm() -> None:
    rng = np.random.default_rng(0)
    image, _ = card(200, 440, 150, 330)
    depth = plane_depth((0.0, 0.3, 1.0), 2.0)
    blocks = rng.uniform(size=(HEIGHT // 20, WIDTH // 20)) < 0.3
    depth[np.kron(blocks, np.ones((20, 20))) > 0] *= 0.8
    result = extract_rgbd(image, depth, CAMERA)
    off = np.abs(result.endpoints @ np.array([0.0, 0.3, 1.0]) - 2.0).max(axis=1)
    assert len(result) >= 3
    assert np.median(off) < 0.01


def test_covariance_tells_the_error_of_depth() -> None:
    """Over noisy frames, errors of the depths of end points agree with their covariance within a factor."""
    image, _ = card(200, 440, 150, 330)
    truth = plane_depth((0.1, 0.2, 1.0), 2.5)
    settings = RgbdSettings()
    square = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        coarse = rng.normal(0, 1, (HEIGHT // 5, WIDTH // 5))  # errors are equal over five pixels
        noise = np.kron(coarse, np.ones((5, 5))) * (settings.noise[0] + settings.noise[1] * truth**2)
        result = extract_rgbd(image, truth + noise, CAMERA, settings)
        assert result.covariance is not None
        off = (result.endpoints @ np.array([0.1, 0.2, 1.0]) - 2.5)[:, 0]
        normal = np.concatenate([[0.1, 0.2, 1.0], np.zeros(3)])
        square += (off**2 / np.einsum("i,nij,j->n", normal, result.covariance, normal)).tolist()
    assert 0.2 < np.mean(square) < 3.0
    assert np.linalg.eigvalsh(result.covariance).min() > -1e-12


def test_lines_carry_the_noise_of_their_covariance() -> None:
    ends = np.array([[[0.0, 0, 1], [0, 0, 2]], [[0, 0, 1], [1, 0, 1]]])
    covariance = np.tile(np.diag([0.01, 0.04, 0.09, 0.01, 0.04, 0.09]), (2, 1, 1))
    arrays = SegmentArrays(ends, np.ones(2, np.int64), np.zeros(2))
    sigma = arrays.extracted(covariance).lines.sigma
    assert sigma is not None
    np.testing.assert_allclose(sigma, np.sqrt([(0.01 + 0.04) / 2, (0.04 + 0.09) / 2]))  # across z, across x
    assert arrays.extracted().lines.sigma is None


def test_a_blank_image_has_no_lines() -> None:
    blank = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    for detector in ("edlines", "lsd"):
        settings = RgbdSettings(detector=detector)
        assert image_segments(blank, settings).shape == (0, 4)
        assert len(extract_rgbd(blank, np.ones((HEIGHT, WIDTH)), CAMERA, settings)) == 0


def test_sizes_have_to_agree() -> None:
    with pytest.raises(ShapeError, match=r"depth: expected shape \(480, 640\), got \(240, 320\)"):
        getattr(extract_rgbd, "__wrapped__", extract_rgbd)(
            np.zeros((480, 640, 3), np.uint8), np.zeros((240, 320)), CAMERA
        )


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(wanted: str, *rest: object, **more: object) -> object:
        if wanted == "cv2":
            raise ImportError(wanted)
        return real(wanted, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependencyError, match=r"plueckernet\[extract\]"):
        image_segments(np.zeros((10, 10), np.uint8), RgbdSettings())
