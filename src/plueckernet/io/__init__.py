"""Files of 3D lines: `read_lines` and `write_lines`, one module per format."""

from plueckernet.io.atomic import atomic_write, atomic_write_bytes
from plueckernet.io.inputs import LinesLike, as_lines
from plueckernet.io.reading import ReadReport, read_lines, read_lines_report
from plueckernet.io.registry import FORMATS, Format
from plueckernet.io.summary import Summary, summarise_lines
from plueckernet.io.writing import clip_to_ball, write_lines

__all__ = [
    "FORMATS",
    "Format",
    "LinesLike",
    "ReadReport",
    "Summary",
    "as_lines",
    "atomic_write",
    "atomic_write_bytes",
    "clip_to_ball",
    "read_lines",
    "read_lines_report",
    "summarise_lines",
    "write_lines",
]
