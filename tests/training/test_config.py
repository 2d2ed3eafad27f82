"""A config is parsed strictly; errors name the file and the key."""

import pytest
from tests.training.tiny import tiny

from plueckernet.errors import InputError
from plueckernet.models import InvariantConfig, Matcher, PlueckerConfig, PoseRegressor
from plueckernet.models.transport import SinkhornConfig
from plueckernet.training import available_configs, load_config
from plueckernet.training.config import parse_config
from plueckernet.training.trainer import learning_rate

SHIPPED = [
    "invariant", "invariant-small", "pluecker-indoor", "pluecker-outdoor", "pluecker-paper", "regression-indoor",
    "regression-outdoor", "tiny",
]  # fmt: skip


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_the_papers_config_has_its_hyper_parameters():
    """Sec. 4.1: Adam, 1e-3, batches of 12; 10 neighbours, 30 iterations with 0.1, six pairs of attention layers."""
    config = load_config("pluecker-paper")
    rates = {learning_rate(step, config.train) for step in (0, 100, config.train.steps - 1)}
    assert (rates, config.train.batch, config.train.weight_decay, config.train.ema) == ({1e-3}, 12, 0.0, 0.0)
    network = config.model.config
    assert (network.neighbours, network.layers, network.sinkhorn) == (10, 12, SinkhornConfig(0.1, 30))
    assert (config.data.keep, config.data.sizes) == ((0.7, 0.7), (1000,))
    assert config.data.stored * 0.7 > 1000


def test_the_shipped_configs_are_these():
    assert available_configs() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_config_builds_its_network_and_survives_a_round_trip(name, tmp_path):
    config = load_config(name)
    assert config.name == name
    assert config.card.data
    assert config.card.protocol
    kind = PoseRegressor if name.startswith("regression") else Matcher
    assert type(config.model.build(seed=0)) is kind
    assert parse_config(config.to_tables(), tmp_path / "again") == config


def test_the_paper_networks_are_trained_and_judged_directed():
    for name in ("pluecker-indoor", "pluecker-outdoor"):
        config = load_config(name)
        assert config.model.config == PlueckerConfig()
        assert config.data.protocol == "paper"
        assert config.validation.directed


def test_a_file_becomes_settings(tmp_path):
    path = written(
        tmp_path,
        """
        [model]
        network = "invariant"
        layers = 6
        assignment = "transport"
        sinkhorn = { regularisation = 0.05 }
        [data]
        sizes = [128, 64]
        keep = [0, 1]
        [train]
        lr = 1
        [validation]
        cells.easy = { keep = [1, 1] }
        cells.hard = { keep = [0.2, 0.2], sizes = [32] }
        """,
    )
    config = load_config(path)
    assert config.name == "mine"
    assert config.model.config == InvariantConfig(
        layers=6, assignment="transport", sinkhorn=SinkhornConfig(regularisation=0.05)
    )
    assert config.data.sizes == (128, 64)
    assert config.data.keep == (0.0, 1.0)
    assert type(config.train.lr) is float
    cells = config.validation.cells
    assert [cell.keep for cell in cells.values()] == [(1.0, 1.0), (0.2, 0.2)]
    assert [cell.sizes for cell in cells.values()] == [(128, 64), (32,)]  # other settings of a cell are those of [data]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[train]\nstepz = 3", "train.stepz"),
        ("[data]\nscene = 'room'", "data.scene"),
        ("[validation]\ncells.a = { kep = [1, 1] }", "validation.cells.a.kep"),
        ("[model]\nnetwork = 'invariant'\nlayer = 3", "model.layer"),
        ("[model]\nnetwork = 'transformer'", "model.network"),
        ("[optimizer]", "unknown table optimizer"),
        ("[train]\nsteps = '3'", "train.steps: expected int, got '3'"),
        ("[train]\nsteps = true", "train.steps"),
        ("[train]\nprecision = 'fp8'", "train.precision: expected 'bf16' or 'float32'"),
        ("[data]\nkeep = [0.1]", "data.keep"),
        ("[data]\nsizes = ['many']", r"data.sizes\[0\]"),
        ("[train]\nsteps = 0", "steps must be positive"),
        ("[train]\nema = 1.0", "ema"),
        ("data = 3", "data: expected a table"),
        ("[validation]\ncells = 3", "validation.cells"),
        ("validation = 3", "validation: expected a table"),
        ("model = 3", "model.network"),
        ("[train", "line"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path, text, complaint):
    text = text if "model" in text else text + "\n[model]\nnetwork = 'invariant'\n"
    with pytest.raises(InputError, match=complaint) as raised:
        load_config(written(tmp_path, text))
    assert "mine.toml" in str(raised.value)


def test_settings_on_the_command_line_win():
    config = tiny(
        "train.steps=7", "train.schedule=constant", "data.keep=[0.5, 0.6]", "validation.cells.parts.surveys=1"
    )
    assert config.train.steps == 7
    assert config.train.schedule == "constant"  # text needs no quotes
    assert config.data.keep == (0.5, 0.6)
    assert config.validation.cells["parts"].surveys == 1.0


@pytest.mark.parametrize("setting", ["train.steps", "=3", "train..steps=3", "train.steps.more=3", "train.stepz=3"])
def test_a_malformed_setting_is_refused(setting):
    with pytest.raises(InputError):
        tiny(setting)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="pluecker-indoor"):
        load_config("nonsense")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.toml"):
        load_config(tmp_path / "none.toml")
