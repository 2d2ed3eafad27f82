"""Readers of public datasets from the files that their publishers distribute."""

from plueckernet.data.datasets.apollo import apollo_sequences
from plueckernet.data.datasets.authors import AuthorsPair, read_authors_pairs
from plueckernet.data.datasets.cells import cell_frame, house_frame, split_into_cells
from plueckernet.data.datasets.frames import CameraFrame, CloudFrame, LinesFrame, MissingFrame, SensorFrame
from plueckernet.data.datasets.kitti import kitti_sequence
from plueckernet.data.datasets.rgbd import seven_scenes_sequence, tum_sequence
from plueckernet.data.datasets.semantic3d import semantic3d_census, semantic3d_clouds
from plueckernet.data.datasets.sequences import open_sequence
from plueckernet.data.datasets.structured3d import read_structured3d, structured3d_scenes

__all__ = [
    "AuthorsPair",
    "CameraFrame",
    "CloudFrame",
    "LinesFrame",
    "MissingFrame",
    "SensorFrame",
    "apollo_sequences",
    "cell_frame",
    "house_frame",
    "kitti_sequence",
    "open_sequence",
    "read_authors_pairs",
    "read_structured3d",
    "semantic3d_census",
    "semantic3d_clouds",
    "seven_scenes_sequence",
    "split_into_cells",
    "structured3d_scenes",
    "tum_sequence",
]
