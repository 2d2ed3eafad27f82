"""An exported matcher answers in ONNX Runtime as in PyTorch, for sizes it was not exported with."""

import warnings

import torch
from tests.models.random_lines import random_lines

from plueckernet.models import InvariantConfig, SinkhornConfig, build_matcher
from plueckernet.models.export import export_onnx, onnx_difference


def test_onnx_runtime_agrees(tmp_path):
    # Tracing takes seconds per layer; one iteration of Sinkhorn has all the operations of thirty.
    torch.manual_seed(0)
    net = build_matcher(InvariantConfig(layers=2, assignment="transport", sinkhorn=SinkhornConfig(0.1, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter warns about itself
        path = export_onnx(net, tmp_path / "matcher.onnx", segments=True)
    for m, n in ((9, 7), (30, 12), (5, 21), (16, 16)):
        assert (
            onnx_difference(net, path, random_lines(m), random_lines(n, 1)) < 1e-3
        )  # tables are read off at the nearest row
