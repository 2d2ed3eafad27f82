"""IFC: the feature edges of building elements, in metres, read by ifcopenshell.

Where the file says how its coordinates relate to a map (`IfcMapConversion`), the lines are given in that map. Spaces,
openings, grids and annotations are no elements that a scan would see, and are left out unless their type is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float64

from plueckernet.errors import MissingDependencyError, PlueckernetError
from plueckernet.io.crs import short_name
from plueckernet.io.meshes import mesh_feature_edges
from plueckernet.io.source import RawLines, Source

_UNSEEN = (
    "IfcSpace",
    "IfcFeatureElementSubtraction",
    "IfcGrid",
    "IfcAnnotation",
    "IfcSpatialElement",
    "IfcVirtualElement",
)
_SHOWN_TYPES = 6  # of a note


def recognises(source: Source) -> bool:
    """Whether the file starts as STEP with an IFC schema does."""
    return source.head.lstrip().startswith(b"ISO-10303-21") and b"IFC" in source.head[:4096].upper()


def read(source: Source) -> RawLines:
    """Read the feature edges of all elements, or of the chosen types and storey."""
    if not recognises(source):
        raise source.error("not IFC: the file does not start as STEP does")
    ifc = _ifcopenshell()
    try:
        model = ifc.open(str(source.path))
    except Exception as error:  # the parser raises bare Python and C++ errors
        raise source.error(f"not readable as IFC: {error}") from error
    try:
        return _read_model(model, source, ifc)
    except PlueckernetError:
        raise
    except Exception as error:  # entities without what the schema demands
        raise source.error(f"damaged IFC: {error}") from error


def _read_model(model: Any, source: Source, ifc: Any) -> RawLines:
    elements = _elements(model, source, ifc)
    pieces, ids = [np.empty((0, 2, 3))], []
    for number, edges in _shapes(model, elements, source, ifc):
        pieces.append(edges)
        ids += [number] * len(edges)
    kinds = Counter(element.is_a() for element in elements)
    listed = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_SHOWN_TYPES))
    more = ", …" if len(kinds) > _SHOWN_TYPES else ""
    notes = [f"in metres; {len(elements)} elements: {listed}{more}"]
    move, crs = _map_conversion(model, ifc)
    ends = np.concatenate(pieces)
    if move is not None:
        ends = ends @ move[:3, :3].T + move[:3, 3]
        notes.append("IfcMapConversion was applied")
    return RawLines(ends, ids=np.array(ids, dtype=np.int64), notes=tuple(notes), crs=crs)


def _ifcopenshell() -> Any:
    try:
        import ifcopenshell
        import ifcopenshell.geom
        import ifcopenshell.util.element
        import ifcopenshell.util.unit
    except ImportError:
        raise MissingDependencyError("ifcopenshell", "bim") from None
    return ifcopenshell


def _elements(model: Any, source: Source, ifc: Any) -> list[Any]:
    """The elements with a shape that are asked for."""
    shaped = [element for element in model.by_type("IfcProduct") if element.Representation is not None]
    if source.types:
        wanted = _known(model, source.types)
        chosen = [element for element in shaped if any(element.is_a(kind) for kind in wanted)]
    else:
        chosen = [element for element in shaped if not any(element.is_a(kind) for kind in _known(model, _UNSEEN))]
    if not chosen:
        kinds = ", ".join(sorted({element.is_a() for element in shaped})) or "none"
        raise source.error(f"no elements of these types; those with a shape are: {kinds}")
    return chosen if source.storey is None else _on_storey(chosen, source, model, ifc)


def _on_storey(elements: list[Any], source: Source, model: Any, ifc: Any) -> list[Any]:
    wanted = str(source.storey).lower()
    names = [storey.Name or "" for storey in model.by_type("IfcBuildingStorey")]
    if wanted not in [name.lower() for name in names]:
        raise source.error(f"no storey {source.storey!a}; those of the file are: {', '.join(names) or 'none'}")

    def storey_of(element: Any) -> str:
        container = ifc.util.element.get_container(element, ifc_class="IfcBuildingStorey")
        return "" if container is None else (container.Name or "").lower()

    chosen = [element for element in elements if storey_of(element) == wanted]
    if not chosen:
        raise source.error(f"storey {source.storey!a} has no elements with a shape")
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


def _shapes(
    model: Any, elements: list[Any], source: Source, ifc: Any
) -> Iterator[tuple[int, Float64[np.ndarray, "n 2 3"]]]:
    """The number of each element in the file, and its feature edges in metres."""
    settings = ifc.geom.settings()
    settings.set("use-world-coords", True)
    iterator = ifc.geom.iterator(settings, model, 1, include=elements)
    if not iterator.initialize():
        raise source.error("no element has a shape that can be computed")
    while True:
        shape = iterator.get()
        vertices = np.array(shape.geometry.verts, dtype=np.float64).reshape(-1, 3)
        faces = np.array(shape.geometry.faces, dtype=np.int64).reshape(-1, 3)
        yield int(shape.id), mesh_feature_edges(vertices, faces)
        if source.progress is not None:
            source.progress(min(1.0, iterator.progress() / 100))
        if not iterator.next():
            return


def _map_conversion(model: Any, ifc: Any) -> tuple[Float64[np.ndarray, "4 4"] | None, str | None]:
    """The similarity from the model to its map, in metres, and the name of the map's reference system."""
    if not _is_known(model, "IfcMapConversion") or not model.by_type("IfcMapConversion"):
        return None, None
    conversion = model.by_type("IfcMapConversion")[0]
    target = conversion.TargetCRS
    project = float(ifc.util.unit.calculate_unit_scale(model))
    map_unit = getattr(target, "MapUnit", None)
    metres = project if map_unit is None else _metres(map_unit, ifc)
    # The scale turns units of the project into those of the map; without one, both are taken to be the same length.
    scale = 1.0 if conversion.Scale is None else conversion.Scale * metres / project
    cosine = 1.0 if conversion.XAxisAbscissa is None else conversion.XAxisAbscissa
    sine = 0.0 if conversion.XAxisOrdinate is None else conversion.XAxisOrdinate
    length = float(np.hypot(cosine, sine)) or 1.0
    cosine, sine = scale * cosine / length, scale * sine / length
    move = np.array([[cosine, -sine, 0, 0], [sine, cosine, 0, 0], [0, 0, scale, 0], [0, 0, 0, 1.0]])
    move[:3, 3] = metres * np.array([conversion.Eastings, conversion.Northings, conversion.OrthogonalHeight])
    name = None if target is None or not target.Name else short_name(target.Name)
    return move, name


def _metres(unit: Any, ifc: Any) -> float:
    """The length of a named unit in metres."""
    if unit.is_a("IfcConversionBasedUnit"):
        factor = unit.ConversionFactor
        return float(factor.ValueComponent.wrappedValue) * _metres(factor.UnitComponent, ifc)
    return float(ifc.util.unit.get_prefix_multiplier(getattr(unit, "Prefix", None)))
