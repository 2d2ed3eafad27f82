"""Names of coordinate reference systems, as files write them."""

from __future__ import annotations

import re

_EPSG = re.compile(r"EPSG(?:/[\d.]+/|:[\d.]*:|:|#)(\d+)", re.IGNORECASE)
_DEGREES = {"4326", "4258", "4937", "4979", "6318", "6697"}  # common systems of latitude and longitude


def short_name(name: str) -> str:
    """`EPSG:25832` for a URN or URL of it, `EPSG:25832+7837` for a horizontal and a vertical one; others unchanged."""
    codes = _EPSG.findall(name)
    return f"EPSG:{'+'.join(codes)}" if codes else name.strip()


def is_in_degrees(name: str) -> bool:
    """Whether the coordinates of a common system are degrees, which are no lengths."""
    return any(code in _DEGREES for code in _EPSG.findall(short_name(name)))
