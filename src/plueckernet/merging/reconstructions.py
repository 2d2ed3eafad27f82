"""Two COLMAP models that share no image, aligned by their lines and merged.

`align_reconstructions` takes `pycolmap.Reconstruction`s, `read_model` and `write_models` work on folders.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from plueckernet.errors import FormatError, InputError
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.similarity.search import ScaleChoice
from plueckernet.geometry.lines import LineSet
from plueckernet.geometry.similarity import Transform
from plueckernet.interop.colmap import SOURCE_FOLDER, merge_reconstructions, read_reconstruction, to_sim3d
from plueckernet.io import ReadReport
from plueckernet.io.files import make_folder
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.io.limap2 import FOLDER, LineTrack, lines_file, read_tracks, tracks_of, write_structures
from plueckernet.io.limap_structures import StructureNumbers, write_joined
from plueckernet.io.matrices import write_matrix
from plueckernet.io.source import Source
from plueckernet.matchers import MatcherSource
from plueckernet.moving.colmap import as_similarity, moved_tracks
from plueckernet.moving.replacing import replacing
from plueckernet.registration import register
from plueckernet.result import RegistrationResult

MOVED, MERGED = "moved", "merged"
_CORE = (0.1, 0.9)  # of the points along each axis; points of wrong matches are outside


@dataclass(frozen=True)
class LineModel:
    """A COLMAP model with lines.

    Attributes:
        path: Its folder.
        reconstruction: The `pycolmap.Reconstruction`.
        report: The lines by which it is aligned.
        tracks: The lines that are written: its own, or those by which it is aligned if it has none.
    """

    path: Path
    reconstruction: Any = field(repr=False)
    report: ReadReport = field(repr=False)
    tracks: list[LineTrack] = field(repr=False)

    @property
    def structures(self) -> Path | None:
        """The folder of its own lines, if it has any."""
        file = lines_file(self.path / FOLDER) if (self.path / FOLDER).is_dir() else None
        return None if file is None else file.parent


def align_reconstructions(
    source: Any,
    target: Any,
    lines: tuple[LinesLike, LinesLike],
    *,
    matcher: MatcherSource = "invariant",
    settings: RegistrationSettings = RegistrationSettings(),
    seed: int = 0,
    scale: ScaleChoice = "unknown",
) -> tuple[Any, RegistrationResult]:
    """The similarity between two COLMAP models, which need not have an image in common.

    Args:
        source: A `pycolmap.Reconstruction`.
        target: Another one, in any frame and unit.
        lines: The lines of each, in its frame: a file, a `LineSet` or end points.
        matcher: As in `register`.
        settings: As in `register`.
        seed: As in `register`.
        scale: As in `register`; by default any.

    Returns:
        `target_T_source` as a `pycolmap.Sim3d`, None if the registration is not accepted, and the result, which says
        why. `source.transform(target_T_source)` moves the source.
    """
    pair = as_lines(lines[0]), as_lines(lines[1])
    check_frame("source", source, pair[0])
    check_frame("target", target, pair[1])
    result = register(*pair, matcher=matcher, settings=settings, seed=seed, scale=scale)
    pose = result.target_T_source
    return (to_sim3d(pose) if result and pose is not None else None), result


def check_frame(name: str, reconstruction: Any, lines: LineSet) -> None:
    """Raise :class:`InputError` if lines are so distant from the points of their model that they have another frame."""
    if reconstruction.num_points3D() == 0 or len(lines) == 0:
        return
    box = reconstruction.compute_bounding_box(*_CORE)
    size = np.linalg.norm(box.max - box.min)
    middle = lines.midpoints().double().median(0).values.cpu().numpy()
    outside = np.maximum(box.min - middle, middle - box.max).max()
    if size > 0 and outside > size:
        raise InputError(f"{name}: its lines are {outside / size:.1f} times the size of the model away from its points")


def read_model(path: Path, report: ReadReport) -> LineModel:
    """Read a COLMAP model; the lines by which it is aligned have been read."""
    reconstruction = read_reconstruction(path)
    check_frame(str(path), reconstruction, report.lines)
    if report.lines.endpoints is None:
        raise FormatError(report.path, "infinite lines have no end points, which LIMAP needs")
    model = LineModel(path, reconstruction, report, tracks_of(report.lines.replaced(ids=None)))
    file = None if model.structures is None else lines_file(model.structures)
    return model if file is None else replace(model, tracks=read_tracks(Source(file)))


def write_models(out: Path, source: LineModel, target: LineModel, target_T_source: Transform) -> list[str]:
    """Write the moved source and the merged model into a folder, whole or not at all; returns notes for the user."""
    make_folder(out.parent)
    moved = _moved(source, target_T_source)
    merged = merge_reconstructions(moved.reconstruction, target.reconstruction)
    lines = _after(target.tracks, moved.tracks)
    with replacing(out) as folder:
        _write(folder / MOVED, moved.reconstruction, ((moved, _unchanged(moved)),))
        numbers = StructureNumbers(merged.numbers.images, merged.numbers.points, lines)
        pair = ((target, _unchanged(target)), (moved, numbers))
        notes = _write(folder / MERGED, merged.reconstruction, pair)
        write_matrix(folder / "target_T_source.txt", target_T_source)
    if merged.renamed:
        names = f"{len(merged.renamed)} names of images are in both models"
        notes.append(f"{names}; in {out / MERGED} those of {source.path} begin with {SOURCE_FOLDER}/")
    return notes


def _moved(model: LineModel, target_T_source: Transform) -> LineModel:
    reconstruction = copy.deepcopy(model.reconstruction)
    reconstruction.transform(to_sim3d(target_T_source))
    tracks = moved_tracks(model.tracks, as_similarity(target_T_source))
    return replace(model, reconstruction=reconstruction, tracks=tracks)


def _after(target: list[LineTrack], source: list[LineTrack]) -> dict[int, int]:
    """New numbers of the lines of the source, after those of the target."""
    first = max((track.number for track in target), default=-1) + 1
    return {track.number: first + place for place, track in enumerate(source)}


def _unchanged(model: LineModel) -> StructureNumbers:
    images, points = model.reconstruction.images, model.reconstruction.points3D
    return StructureNumbers(
        {number: number for number in images},
        {number: number for number in points},
        {track.number: track.number for track in model.tracks},
    )


def _write(folder: Path, reconstruction: Any, models: tuple[tuple[LineModel, StructureNumbers], ...]) -> list[str]:
    """Write a reconstruction with the lines of models, in new numbers; returns notes about what was left out."""
    folder.mkdir(parents=True)
    try:
        reconstruction.write(str(folder))
    except RuntimeError as error:  # such as an image without a pose
        raise InputError(f"{folder}: pycolmap cannot write the model: {error}") from error
    features = {number: image.num_points2D() for number, image in reconstruction.images.items()}
    notes = write_joined(folder / FOLDER, tuple((model.structures, numbers) for model, numbers in models), features)
    tracks = [_numbered(track, numbers) for model, numbers in models for track in model.tracks]
    write_structures(folder / FOLDER, tracks)
    return notes


def _numbered(track: LineTrack, numbers: StructureNumbers) -> LineTrack:
    support = tuple((numbers.images[image], segment) for image, segment in track.support if image in numbers.images)
    return replace(track, number=numbers.lines[track.number], support=support)
