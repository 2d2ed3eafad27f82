"""Files moved by a pose: lines, point clouds, meshes, COLMAP models and trajectories, with all else that they hold."""

from plueckernet.moving.files import KINDS, move_file

__all__ = ["KINDS", "move_file"]
