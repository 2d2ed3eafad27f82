"""Training: scenes to pairs to weights, and what `plueckernet train` and `plueckernet weights` call."""

from plueckernet.training.config import TrainingConfig, available_configs, load_config
from plueckernet.training.run import Outcome, train
from plueckernet.training.trainer import PairSource

__all__ = ["Outcome", "PairSource", "TrainingConfig", "available_configs", "load_config", "train"]
