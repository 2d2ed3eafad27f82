"""Point clouds in files: whole, or in chunks where they are larger than memory."""

from plueckernet.extraction.clouds.reading import CLOUD_FORMATS, point_chunks, read_points

__all__ = ["CLOUD_FORMATS", "point_chunks", "read_points"]
