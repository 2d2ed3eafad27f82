"""Models of a new user: a building as IFC and as CityGML, and two COLMAP models that share no image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.synthetic_clouds import Scene
from plueckernet.data.scenes import make_scene
from plueckernet.geometry import LineSet, Pose, Similarity
from plueckernet.interop.colmap import to_sim3d
from plueckernet.io.limap2 import LineTrack, write_structures

FACES = [(0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)]  # of eight corners
GML_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<core:CityModel xmlns:core="http://www.opengis.net/citygml/2.0"'
    ' xmlns:gml="http://www.opengis.net/gml" xmlns:bldg="http://www.opengis.net/citygml/building/2.0"'
    ' xmlns:xlink="http://www.w3.org/1999/xlink">'
)
ENVELOPE = '<gml:boundedBy><gml:Envelope srsName="urn:ogc:def:crs:EPSG::25832" srsDimension="3"/></gml:boundedBy>'
GROUND_FLOOR = "Ground floor"
_UTM = np.array([458870.0, 5438250.0, 110.0])
_THICKNESS = 0.2  # m, of floor and walls
_SIZE = 1000  # pixels of an image


@dataclass(frozen=True)
class Element:
    """A box of a building: its type in IFC, its storey, and its corners, those of the bottom first, in metres."""

    kind: str
    storey: str
    corners: np.ndarray


def room_elements(scene: Scene) -> list[Element]:
    """Floor, walls and furniture of :func:`benchmarks.synthetic_clouds.boxes`."""
    elements = []
    for patch, kind in zip(scene.patches[:3], ("IfcSlab", "IfcWall", "IfcWall"), strict=True):
        across = np.cross(patch.u, patch.v)
        inside = 1 if (across / np.linalg.norm(across)).sum() > 0 else -1
        outside = -inside * _THICKNESS * across / np.linalg.norm(across)
        face = [patch.corner, patch.corner + patch.u, patch.corner + patch.u + patch.v, patch.corner + patch.v]
        elements.append(Element(kind, GROUND_FLOOR, np.array([*face, *(corner + outside for corner in face)])))
    for centre, axes, half in scene.solids:
        signs = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
        corners = [centre + np.array([x, y, z]) * half @ axes for z in (-1, 1) for x, y in signs]
        elements.append(Element("IfcFurniture", GROUND_FLOOR, np.array(corners)))
    return elements


def put_building(folder: Path, scene: Scene) -> None:
    """The room as `house.ifc`, in a frame of its own, and as `city.gml`, in a map."""
    elements = room_elements(scene)
    local = Pose.from_quaternion([np.cos(0.4), 0, 0, np.sin(0.4)], [12.0, -7.0, 3.0])
    write_ifc(folder / "house.ifc", [Element(e.kind, e.storey, local @ e.corners) for e in elements])
    (folder / "city.gml").write_text(gml_of(2, [element.corners + _UTM for element in elements]))


def write_ifc(
    path: Path, elements: Iterable[Element], *, millimetres: bool = True, conversion: Mapping[str, float] | None = None
) -> None:
    """Write boxes as IFC 4; ``conversion`` has the values of an `IfcMapConversion` to EPSG:25832."""
    import ifcopenshell.api.aggregate
    import ifcopenshell.api.context
    import ifcopenshell.api.geometry
    import ifcopenshell.api.project
    import ifcopenshell.api.root
    import ifcopenshell.api.spatial
    import ifcopenshell.api.unit

    api = ifcopenshell.api
    model = api.project.create_file()

    def made(kind: str, name: str, parent: Any = None) -> Any:
        entity = api.root.create_entity(model, ifc_class=kind, name=name)
        if parent is not None:
            api.aggregate.assign_object(model, relating_object=parent, products=[entity])
        return entity

    project = made("IfcProject", "project")
    api.unit.assign_unit(model, length={"is_metric": True, "raw": "MILLIMETERS" if millimetres else "METERS"})
    context = api.context.add_context(model, context_type="Model")
    body = api.context.add_context(
        model, context_type="Model", context_identifier="Body", target_view="MODEL_VIEW", parent=context
    )
    house = made("IfcBuilding", "house", made("IfcSite", "site", project))
    storeys: dict[str, Any] = {}
    for number, element in enumerate(elements):
        if element.storey not in storeys:
            storeys[element.storey] = made("IfcBuildingStorey", element.storey, house)
        product = made(element.kind, f"element {number}")
        shape = api.geometry.add_mesh_representation(
            model, context=body, vertices=[element.corners.tolist()], faces=[[list(face) for face in FACES]]
        )
        api.geometry.edit_object_placement(model, product=product, matrix=np.eye(4))
        api.geometry.assign_representation(model, product=product, representation=shape)
        api.spatial.assign_container(model, relating_structure=storeys[element.storey], products=[product])
    if conversion is not None:
        metre = model.create_entity("IfcSIUnit", UnitType="LENGTHUNIT", Name="METRE")
        crs = model.create_entity("IfcProjectedCRS", Name="EPSG:25832", MapUnit=metre)
        model.create_entity("IfcMapConversion", SourceCRS=context, TargetCRS=crs, **conversion)
    model.write(str(path))


def polygon(points: Iterable[Iterable[float]], attributes: str = "") -> str:
    """A face in GML."""
    ring = [list(point) for point in points]
    numbers = " ".join(f"{value:.6f}" for point in [*ring, ring[0]] for value in point)
    return (
        "<gml:surfaceMember><gml:Polygon><gml:exterior><gml:LinearRing>"
        f"<gml:posList{attributes}>{numbers}</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></gml:surfaceMember>"
    )


def surfaces(level: int, polygons: Iterable[str]) -> str:
    """Faces of a level of detail."""
    name = f"bldg:lod{level}MultiSurface"
    return f"<{name}><gml:MultiSurface>{''.join(polygons)}</gml:MultiSurface></{name}>"


def building(*geometries: str) -> str:
    """A building of CityGML."""
    return f"<core:cityObjectMember><bldg:Building>{''.join(geometries)}</bldg:Building></core:cityObjectMember>"


def gml_of(level: int, boxes: Iterable[np.ndarray]) -> str:
    """CityGML of boxes, each by its eight corners."""
    members = [building(surfaces(level, (polygon(corners[list(face)]) for face in FACES))) for corners in boxes]
    return f"{GML_HEAD}{ENVELOPE}{''.join(members)}</core:CityModel>"


def put_colmap_models(folder: Path) -> None:
    """A house from the street and from a drone: two models in frames and units of their own, with lines of LIMAP."""
    lines = make_scene("indoor", 4711)
    order = lines.midpoints()[:, 0].argsort()
    street, drone = lines[order[: 3 * len(order) // 4]], lines[order[len(order) // 4 :]]
    for number, (name, seen) in enumerate({"street": street, "drone": drone}.items()):
        generator = torch.Generator().manual_seed(number)
        motion = Similarity.from_pose(Pose.random(generator=generator, translation=20.0), 0.2 + number)
        put_model(folder / name / "sparse" / "0", seen, motion, np.random.default_rng(number))


def put_model(folder: Path, lines: LineSet, motion: Similarity, generator: np.random.Generator) -> None:
    """A model that pycolmap writes: cameras around a house, and points on its lines; all is moved."""
    import pycolmap

    ends = lines.endpoints.numpy() + 0.01 * generator.normal(size=(len(lines), 2, 3))
    points = ends.mean(1)
    middle = points.mean(0)
    distance = 3 * np.linalg.norm(points - middle, axis=1).max()
    model = pycolmap.Reconstruction()
    model.add_camera_with_trivial_rig(pycolmap.Camera.create_from_model_name(1, "PINHOLE", 800.0, _SIZE, _SIZE))
    for number in range(1, 7):
        rotation = np.linalg.qr(generator.normal(size=(3, 3)))[0]
        rotation *= np.linalg.det(rotation)
        image = pycolmap.Image(f"{folder.parts[-3]}/{number}.jpg", np.zeros((len(points), 2)), 1, number)
        camera_T_world = pycolmap.Rigid3d(pycolmap.Rotation3d(rotation), [0, 0, distance] - rotation @ middle)
        model.add_image_with_trivial_frame(image, camera_T_world)
        for row, point in enumerate(points):
            model.images[number].points2D[row].xy = model.images[number].project_point(point)
    for row, point in enumerate(points):
        track = pycolmap.Track(elements=[pycolmap.TrackElement(image, row) for image in model.images])
        model.add_point3D(point, track, np.zeros(3, np.uint8))
    model.transform(to_sim3d(motion))
    folder.mkdir(parents=True)
    model.write(str(folder))
    moved = (motion @ ends.reshape(-1, 3)).reshape(-1, 6)
    write_structures(
        folder / "structures", [LineTrack(n, tuple(row), (), -1.0) for n, row in enumerate(moved.tolist())]
    )
