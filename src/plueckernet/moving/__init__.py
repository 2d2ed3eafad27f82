"""Files moved by a pose: lines, point clouds, meshes, COLMAP models and trajectories, with all else that they hold."""

from plueckernet.moving.files import FORMATS, move_file

__all__ = ["FORMATS", "move_file"]
