"""A small house as CityGML and as IFC, made by the tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from benchmarks.user_models import ENVELOPE, GML_HEAD, Element, gml_of, write_ifc

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


def city_gml(*members: str, envelope: str = ENVELOPE) -> str:
    return f"{GML_HEAD}{envelope}{''.join(members)}</core:CityModel>"


def house_gml(offset: tuple[float, float, float] = (458870.0, 5438250.0, 110.0)) -> str:
    """The walls of the house at level 3, in a map."""
    return gml_of(3, [box(*wall) + np.array(offset) for wall in WALLS])


def house_ifc(path: Path, *, map_conversion: bool = False, millimetres: bool = True) -> None:
    """The walls of the house as IFC on two storeys; the third wall is on the upper one."""
    elements = [
        Element("IfcWall" if number % 2 else "IfcSlab", "Upper" if number == 2 else "Ground", box(*wall))
        for number, wall in enumerate(WALLS)
    ]
    conversion = {
        "Eastings": 458870.0, "Northings": 5438250.0, "OrthogonalHeight": 110.0, "XAxisAbscissa": 0.0,
        "XAxisOrdinate": 2.0, "Scale": 0.001 if millimetres else 1.0,
    }  # fmt: skip
    write_ifc(path, elements, millimetres=millimetres, conversion=conversion if map_conversion else None)
