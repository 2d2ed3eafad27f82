"""An exported matcher answers in ONNX Runtime as in PyTorch, for sizes it was not exported with."""

import warnings

import pytest
from tests.models.random_lines import random_lines

from plueckernet.models import InvariantConfig, PlueckerConfig, SinkhornConfig, build_matcher
from plueckernet.models.export import export_onnx, onnx_difference

CONFIGS = [
    (InvariantConfig(layers=2), True),
    (PlueckerConfig(layers=2, sinkhorn=SinkhornConfig(0.1, 2)), False),
]


@pytest.mark.parametrize(("config", "segments"), CONFIGS, ids=["invariant", "pluecker"])
def test_onnx_runtime_agrees(tmp_path, config, segments):
    net = build_matcher(config).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter warns about itself
        path = export_onnx(net, tmp_path / "matcher.onnx", segments=segments)
    for m, n in ((9, 7), (30, 12), (5, 21), (16, 16)):
        assert onnx_difference(net, path, random_lines(m), random_lines(n, 1)) < 1e-4
