"""Lines in the types of other packages, and back; two COLMAP models in one.

A package is imported only by the function that makes its type.
"""

from plueckernet.interop.colmap import merge_reconstructions, to_sim3d
from plueckernet.interop.open3d import from_open3d, to_open3d
from plueckernet.interop.shapely import from_shapely, to_shapely
from plueckernet.interop.trimesh import feature_edges, from_trimesh, to_trimesh

__all__ = [
    "feature_edges",
    "from_open3d",
    "from_shapely",
    "from_trimesh",
    "merge_reconstructions",
    "to_open3d",
    "to_shapely",
    "to_sim3d",
    "to_trimesh",
]
