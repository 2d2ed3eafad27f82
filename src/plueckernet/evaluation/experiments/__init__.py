"""The experiments, one module for each table or figure; :data:`EXPERIMENTS` has them by name."""

from typing import Any

from plueckernet.evaluation.experiments.ablations import ABLATIONS
from plueckernet.evaluation.experiments.base import Experiment
from plueckernet.evaluation.experiments.bound import BOUND
from plueckernet.evaluation.experiments.error_sources import ERROR_SOURCES
from plueckernet.evaluation.experiments.generalisation import GENERALISATION
from plueckernet.evaluation.experiments.matchability import MATCHABILITY
from plueckernet.evaluation.experiments.motion import ROTATION, TRANSLATION
from plueckernet.evaluation.experiments.noise import NOISE
from plueckernet.evaluation.experiments.odometry import ODOMETRY
from plueckernet.evaluation.experiments.overlap import OVERLAP
from plueckernet.evaluation.experiments.recall import RECALL
from plueckernet.evaluation.experiments.recipes import RECIPES
from plueckernet.evaluation.experiments.scenes import SCENES
from plueckernet.evaluation.experiments.table1 import TABLE1, TABLE1_EACH_AXIS
from plueckernet.evaluation.experiments.timing import TIMING
from plueckernet.evaluation.experiments.undirected import UNDIRECTED
from plueckernet.evaluation.experiments.wrong_matches import WRONG_MATCHES

EXPERIMENTS: dict[str, Experiment[Any]] = {
    experiment.name: experiment
    for experiment in (
        TABLE1,
        TABLE1_EACH_AXIS,
        RECIPES,
        SCENES,
        ERROR_SOURCES,
        RECALL,
        OVERLAP,
        GENERALISATION,
        NOISE,
        MATCHABILITY,
        TIMING,
        ODOMETRY,
        UNDIRECTED,
        ROTATION,
        TRANSLATION,
        WRONG_MATCHES,
        BOUND,
        ABLATIONS,
    )
}

__all__ = ["EXPERIMENTS", "Experiment"]
