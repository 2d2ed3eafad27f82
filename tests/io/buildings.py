"""A small house as CityGML and as IFC, made by the tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

GML_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<core:CityModel xmlns:core="http://www.opengis.net/citygml/2.0"'
    ' xmlns:gml="http://www.opengis.net/gml" xmlns:bldg="http://www.opengis.net/citygml/building/2.0"'
    ' xmlns:xlink="http://www.w3.org/1999/xlink">'
)
ENVELOPE = '<gml:boundedBy><gml:Envelope srsName="urn:ogc:def:crs:EPSG::25832" srsDimension="3"/></gml:boundedBy>'
# Length, thickness and height of each wall, its start and its direction in degrees: a floor plan without symmetry.
WALLS = [
    (8.0, 0.3, 3.0, (0.0, 0.0), 0.0),
    (5.0, 0.3, 2.9, (8.0, 0.0), 90.0),
    (8.5, 0.25, 3.4, (8.0, 5.3), 170.0),
    (6.2, 0.3, 2.6, (0.0, 0.3), 88.0),
    (3.1, 0.12, 2.5, (3.3, 0.4), 65.0),
    (2.2, 0.12, 2.5, (5.0, 2.9), 12.0),
]


def box(length: float, thickness: float, height: float, start: tuple[float, float], degrees: float) -> np.ndarray:
    """The eight corners of a wall."""
    turn = np.deg2rad(degrees)
    along, across = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    foot = [np.array(start) + a * length * along + b * thickness * across for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return np.array([[*corner, z] for z in (0.0, height) for corner in foot])


FACES = [(0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)]


def polygon(points: Iterable[Iterable[float]], attributes: str = "") -> str:
    ring = [list(point) for point in points]
    numbers = " ".join(f"{value:.6f}" for point in [*ring, ring[0]] for value in point)
    return (
        "<gml:surfaceMember><gml:Polygon><gml:exterior><gml:LinearRing>"
        f"<gml:posList{attributes}>{numbers}</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></gml:surfaceMember>"
    )


def surfaces(level: int, polygons: Iterable[str]) -> str:
    name = f"bldg:lod{level}MultiSurface"
    return f"<{name}><gml:MultiSurface>{''.join(polygons)}</gml:MultiSurface></{name}>"


def building(*geometries: str) -> str:
    return f"<core:cityObjectMember><bldg:Building>{''.join(geometries)}</bldg:Building></core:cityObjectMember>"


def city_gml(*members: str, envelope: str = ENVELOPE) -> str:
    return f"{GML_HEAD}{envelope}{''.join(members)}</core:CityModel>"


def house_gml(offset: tuple[float, float, float] = (458870.0, 5438250.0, 110.0)) -> str:
    """The walls of the house at level 3, in a map."""
    members = []
    for wall in WALLS:
        corners = box(*wall) + np.array(offset)
        members.append(building(surfaces(3, (polygon(corners[list(face)]) for face in FACES))))
    return city_gml(*members)


def house_ifc(path: Path, *, map_conversion: bool = False, millimetres: bool = True) -> None:
    """The walls of the house as IFC on two storeys; the third wall is on the upper one."""
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
    storeys = [made("IfcBuildingStorey", name, house) for name in ("Ground", "Upper")]
    for number, wall in enumerate(WALLS):
        element = made("IfcWall" if number % 2 else "IfcSlab", f"wall {number}")
        corners = box(*wall)
        shape = api.geometry.add_mesh_representation(
            model, context=body, vertices=[corners.tolist()], faces=[[list(face) for face in FACES]]
        )
        api.geometry.edit_object_placement(model, product=element, matrix=np.eye(4))
        api.geometry.assign_representation(model, product=element, representation=shape)
        api.spatial.assign_container(model, relating_structure=storeys[number == 2], products=[element])
    if map_conversion:
        metre = model.create_entity("IfcSIUnit", UnitType="LENGTHUNIT", Name="METRE")
        crs = model.create_entity("IfcProjectedCRS", Name="EPSG:25832", MapUnit=metre)
        model.create_entity(
            "IfcMapConversion", SourceCRS=context, TargetCRS=crs, Eastings=458870.0, Northings=5438250.0,
            OrthogonalHeight=110.0, XAxisAbscissa=0.0, XAxisOrdinate=2.0, Scale=0.001 if millimetres else 1.0,
        )  # fmt: skip
    model.write(str(path))
