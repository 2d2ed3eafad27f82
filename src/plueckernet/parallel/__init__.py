"""Tasks on the cores of this machine or on a Ray cluster; a worker that dies loses nothing but its task."""

from plueckernet.parallel.executor import Executor, InlineExecutor, TaskOutcome, in_order
from plueckernet.parallel.processes import ProcessExecutor
from plueckernet.parallel.ray_cluster import RayExecutor

__all__ = ["Executor", "InlineExecutor", "ProcessExecutor", "RayExecutor", "TaskOutcome", "in_order"]
