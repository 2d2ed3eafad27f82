"""Reads a model by ifcopenshell, in the child process of :mod:`plueckernet.io.native`; imports nothing of the package.

The shapes of elements are written as triangles in metres. What is wrong with the wishes of the user, such as a storey
that the model does not have, is written as a sentence in their place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import ifcopenshell as ifc
import ifcopenshell.geom
import ifcopenshell.util.element
import ifcopenshell.util.unit
import numpy as np

_UNSEEN = (
    "IfcSpace",
    "IfcFeatureElementSubtraction",
    "IfcGrid",
    "IfcAnnotation",
    "IfcSpatialElement",
    "IfcVirtualElement",
)

_Array = np.ndarray[Any, np.dtype[Any]]


class WishError(Exception):
    """The model is readable, but does not have what is asked for."""


def write_shapes(path: str, out: str, types: tuple[str, ...], storey: str | None) -> Iterator[float]:
    """Write the triangles of the elements as arrays; yields the fraction that is complete."""
    try:
        model = ifc.open(path)
        elements = _elements(model, types, storey)
        numbers, vertices, faces = [], [np.empty((0, 3))], [np.empty((0, 3), np.int64)]
        for number, points, triangles, complete in _shapes(model, elements):
            numbers.append((number, len(points), len(triangles)))
            vertices.append(points)
            faces.append(triangles)
            yield complete
        move, crs = _map_conversion(model)
    except WishError as error:
        np.savez(out, told=json.dumps({"error": str(error)}))
        return
    told = {"kinds": Counter(element.is_a() for element in elements).most_common(), "crs": crs}
    arrays: dict[str, Any] = {"vertices": np.concatenate(vertices), "faces": np.concatenate(faces)}
    arrays |= {"numbers": np.array(numbers, np.int64).reshape(-1, 3), "move": np.empty(0) if move is None else move}
    np.savez(out, told=json.dumps(told), **arrays)


def _elements(model: Any, types: tuple[str, ...], storey: str | None) -> list[Any]:
    """The elements with a shape that are asked for."""
    shaped = [element for element in model.by_type("IfcProduct") if element.Representation is not None]
    if types:
        wanted = _known(model, types)
        chosen = [element for element in shaped if any(element.is_a(kind) for kind in wanted)]
    else:
        chosen = [element for element in shaped if not any(element.is_a(kind) for kind in _known(model, _UNSEEN))]
    if not chosen:
        kinds = ", ".join(sorted({element.is_a() for element in shaped})) or "none"
        raise WishError(f"no elements of these types; those with a shape are: {kinds}")
    return chosen if storey is None else _on_storey(chosen, storey, model)


def _on_storey(elements: list[Any], storey: str, model: Any) -> list[Any]:
    wanted = storey.lower()
    names = [known.Name or "" for known in model.by_type("IfcBuildingStorey")]
    if wanted not in [name.lower() for name in names]:
        raise WishError(f"no storey {storey!a}; those of the file are: {', '.join(names) or 'none'}")

    def storey_of(element: Any) -> str:
        container = ifc.util.element.get_container(element, ifc_class="IfcBuildingStorey")
        return "" if container is None else (container.Name or "").lower()

    chosen = [element for element in elements if storey_of(element) == wanted]
    if not chosen:
        raise WishError(f"storey {storey!a} has no elements with a shape")
    return chosen


def _known(model: Any, names: tuple[str, ...]) -> list[str]:
    """The types that the schema of the file has; a name of another schema is an error there."""
    return [name for name in names if _is_known(model, name)]


def _is_known(model: Any, name: str) -> bool:
    try:
        model.by_type(name)
    except RuntimeError:
        return False
    return True


def _shapes(model: Any, elements: list[Any]) -> Iterator[tuple[int, _Array, _Array, float]]:
    """The number of each element in the file, its vertices in metres, its triangles, and the complete fraction."""
    settings = ifc.geom.settings()
    settings.set("use-world-coords", True)
    iterator = ifc.geom.iterator(settings, model, 1, include=elements)
    if not iterator.initialize():
        raise WishError("no element has a shape that can be computed")
    while True:
        shape = iterator.get()
        vertices = np.array(shape.geometry.verts, dtype=np.float64).reshape(-1, 3)
        faces = np.array(shape.geometry.faces, dtype=np.int64).reshape(-1, 3)
        yield int(shape.id), vertices, faces, min(1.0, iterator.progress() / 100)
        if not iterator.next():
            return


def _map_conversion(model: Any) -> tuple[_Array | None, str | None]:
    """The similarity from the model to its map, in metres, and the name of the map's reference system."""
    if not _is_known(model, "IfcMapConversion") or not model.by_type("IfcMapConversion"):
        return None, None
    conversion = model.by_type("IfcMapConversion")[0]
    target = conversion.TargetCRS
    project = float(ifc.util.unit.calculate_unit_scale(model))
    map_unit = getattr(target, "MapUnit", None)
    metres = project if map_unit is None else _metres(map_unit)
    # The scale turns units of the project into those of the map; without one, both are taken to be the same length.
    scale = 1.0 if conversion.Scale is None else conversion.Scale * metres / project
    cosine = 1.0 if conversion.XAxisAbscissa is None else conversion.XAxisAbscissa
    sine = 0.0 if conversion.XAxisOrdinate is None else conversion.XAxisOrdinate
    length = float(np.hypot(cosine, sine)) or 1.0
    cosine, sine = scale * cosine / length, scale * sine / length
    move = np.array([[cosine, -sine, 0, 0], [sine, cosine, 0, 0], [0, 0, scale, 0], [0, 0, 0, 1.0]])
    move[:3, 3] = metres * np.array([conversion.Eastings, conversion.Northings, conversion.OrthogonalHeight])
    return move, (target.Name or None) if target is not None else None


def _metres(unit: Any) -> float:
    """The length of a named unit in metres."""
    if unit.is_a("IfcConversionBasedUnit"):
        factor = unit.ConversionFactor
        return float(factor.ValueComponent.wrappedValue) * _metres(factor.UnitComponent)
    return float(ifc.util.unit.get_prefix_multiplier(getattr(unit, "Prefix", None)))
