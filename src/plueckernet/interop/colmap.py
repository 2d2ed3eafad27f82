"""COLMAP by `pycolmap`: similarities, and two reconstructions merged into one."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plueckernet.errors import FormatError, InputError, MissingDependencyError
from plueckernet.geometry.similarity import Similarity, Transform
from plueckernet.io.colmap_files import check_model
from plueckernet.io.native import run_native
from plueckernet.io.source import Source

SOURCE_FOLDER = "source"  # before the names of the images of the source, where both models have a name


@dataclass(frozen=True)
class ModelNumbers:
    """The new numbers of the merged source, by the old ones."""

    cameras: Mapping[int, int]
    rigs: Mapping[int, int]
    frames: Mapping[int, int]
    images: Mapping[int, int]
    points: Mapping[int, int]


@dataclass(frozen=True)
class MergedReconstruction:
    """Two reconstructions in one.

    Attributes:
        reconstruction: A `pycolmap.Reconstruction`, in which the target has the numbers that it had.
        numbers: The numbers of the source.
        renamed: Names of images that both models had. If there are any, all images of the source are in `source/`.
    """

    reconstruction: Any = field(repr=False)
    numbers: ModelNumbers = field(repr=False)
    renamed: tuple[str, ...] = ()


def to_sim3d(motion: Transform) -> Any:
    """A pose or similarity as a `pycolmap.Sim3d`."""
    pycolmap = load_pycolmap()
    similar = motion if isinstance(motion, Similarity) else Similarity.from_pose(motion)
    rotation = pycolmap.Rotation3d(similar.rotation.double().cpu().numpy())
    return pycolmap.Sim3d(float(similar.scale), rotation, similar.translation.double().cpu().numpy())


def read_reconstruction(path: Path) -> Any:
    """The `pycolmap.Reconstruction` of a folder; what it cannot read raises :class:`FormatError`.

    Its binary files are checked first. Then it is read in a child process, where a crash or memory without end is an
    error, and only then in this one.
    """
    pycolmap = load_pycolmap()
    if not path.is_dir():
        raise FormatError(path, "no such folder; expected a COLMAP model")
    check_model(path)
    run_native(Source(path), "colmap", "a COLMAP model")
    try:
        return pycolmap.Reconstruction(str(path))
    except (ValueError, RuntimeError, IndexError, KeyError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FormatError(path, f"not readable as a COLMAP model: {first}") from error


def merge_reconstructions(source: Any, target: Any) -> MergedReconstruction:
    """Two reconstructions of one frame as one; cameras, rigs, frames, images and points of the source get new numbers.

    Points and images are not fused: a point that both models have is there twice. Neither model is changed. Models that
    contradict themselves raise :class:`InputError`.
    """
    try:
        return _merged(source, target, load_pycolmap())
    except (ValueError, RuntimeError, IndexError, KeyError, TypeError) as error:  # those of pycolmap
        raise InputError(f"the models cannot be merged: {error}") from error


def _merged(source: Any, target: Any, pycolmap: Any) -> MergedReconstruction:
    merged = copy.deepcopy(target)
    numbers = _new_numbers(source, target)
    taken = {image.name for image in target.images.values()}
    renamed = tuple(sorted(taken.intersection(image.name for image in source.images.values())))
    for number, camera in source.cameras.items():
        added = copy.copy(camera)
        added.camera_id = numbers.cameras[number]
        merged.add_camera(added)
    sensors = _Sensors(numbers.cameras, target, pycolmap)
    for rig in source.rigs.values():
        merged.add_rig(_numbered_rig(rig, numbers, sensors, pycolmap))
    for frame in source.frames.values():
        merged.add_frame(_numbered_frame(frame, numbers, sensors, pycolmap))
    for image in source.images.values():
        merged.add_image(_numbered_image(image, numbers, f"{SOURCE_FOLDER}/" if renamed else "", pycolmap))
    for number, point in source.points3D.items():
        merged.add_point3D_with_id(numbers.points[number], _numbered_point(point, numbers, pycolmap))
    return MergedReconstruction(merged, numbers, renamed)


def load_pycolmap() -> Any:
    """The package, or :class:`MissingDependencyError` with the extra that installs it."""
    try:
        import pycolmap
    except ImportError:
        raise MissingDependencyError("pycolmap", "colmap") from None
    return pycolmap


def _new_numbers(source: Any, target: Any) -> ModelNumbers:
    def after(taken: Iterable[int], old: Iterable[int]) -> dict[int, int]:
        first = max(taken, default=0) + 1
        return {number: first + place for place, number in enumerate(sorted(old))}

    return ModelNumbers(
        after(target.cameras, source.cameras),
        after(target.rigs, source.rigs),
        after(target.frames, source.frames),
        after(target.images, source.images),
        after(target.points3D, source.points3D),
    )


class _Sensors:
    """The sensors of the source with new numbers: cameras as numbered, others after those of the target."""

    def __init__(self, cameras: Mapping[int, int], target: Any, pycolmap: Any) -> None:
        self._cameras, self._pycolmap = cameras, pycolmap
        self._last: dict[Any, int] = {}
        for rig in target.rigs.values():
            for sensor in rig.sensor_ids():
                self._last[sensor.type] = max(self._last.get(sensor.type, 0), sensor.id)

    def is_camera(self, sensor: Any) -> bool:
        return bool(sensor.type == self._pycolmap.SensorType.CAMERA)

    def numbered(self, sensor: Any) -> Any:
        is_camera = self.is_camera(sensor)
        number = self._cameras[sensor.id] if is_camera else self._last.get(sensor.type, 0) + sensor.id
        return self._pycolmap.sensor_t(type=sensor.type, id=number)


def _numbered_rig(rig: Any, numbers: ModelNumbers, sensors: _Sensors, pycolmap: Any) -> Any:
    added = pycolmap.Rig(rig_id=numbers.rigs[rig.rig_id])
    if rig.num_sensors() > 0:
        added.add_ref_sensor(sensors.numbered(rig.ref_sensor_id))
    for sensor, sensor_T_rig in rig.non_ref_sensors.items():
        added.add_sensor(sensors.numbered(sensor), sensor_T_rig)
    return added


def _numbered_frame(frame: Any, numbers: ModelNumbers, sensors: _Sensors, pycolmap: Any) -> Any:
    added = pycolmap.Frame(frame_id=numbers.frames[frame.frame_id], rig_id=numbers.rigs[frame.rig_id])
    for data in frame.data_ids:
        number = numbers.images[data.id] if sensors.is_camera(data.sensor_id) else data.id
        added.add_data_id(pycolmap.data_t(sensor_id=sensors.numbered(data.sensor_id), id=number))
    if frame.has_pose():
        added.rig_from_world = frame.rig_from_world
    return added


def _numbered_image(image: Any, numbers: ModelNumbers, folder: str, pycolmap: Any) -> Any:
    points = [
        pycolmap.Point2D(point.xy, numbers.points[point.point3D_id])
        if point.has_point3D()
        else pycolmap.Point2D(point.xy)
        for point in image.points2D
    ]
    added = pycolmap.Image(
        name=folder + image.name,
        points2D=pycolmap.Point2DList(points),
        camera_id=numbers.cameras[image.camera_id],
        image_id=numbers.images[image.image_id],
    )
    added.frame_id = numbers.frames[image.frame_id]
    return added


def _numbered_point(point: Any, numbers: ModelNumbers, pycolmap: Any) -> Any:
    elements = [
        pycolmap.TrackElement(numbers.images[element.image_id], element.point2D_idx) for element in point.track.elements
    ]
    return pycolmap.Point3D(
        xyz=point.xyz, color=point.color, error=point.error, track=pycolmap.Track(elements=elements)
    )
