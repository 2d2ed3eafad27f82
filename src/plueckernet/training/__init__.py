"""Training of networks on pairs of line maps; the implementation of `plueckernet train` and `plueckernet weights`."""

from plueckernet.training.config import TrainingConfig, available_configs, load_config
from plueckernet.training.run import TrainingOutcome, train
from plueckernet.training.trainer import PairSource

__all__ = ["PairSource", "TrainingConfig", "TrainingOutcome", "available_configs", "load_config", "train"]
