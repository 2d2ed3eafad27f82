"""Export of matchers to ONNX: trunk, head and transport in one graph, for any number of lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from plueckernet.errors import MissingDependencyError
from plueckernet.geometry import LineSet
from plueckernet.models.matcher import Matcher, MatchOutput

_OUTPUTS = ("log_probability", "source_matchability", "target_matchability")


class _Tensors(nn.Module):
    """A matcher whose arguments are tensors, as ONNX requires."""

    def __init__(self, matcher: Matcher) -> None:
        super().__init__()
        self.matcher = matcher

    def forward(
        self,
        source_direction: Float[Tensor, "b m 3"],
        source_moment: Float[Tensor, "b m 3"],
        target_direction: Float[Tensor, "b n 3"],
        target_moment: Float[Tensor, "b n 3"],
        source_endpoints: Float[Tensor, "b m 2 3"] | None = None,
        target_endpoints: Float[Tensor, "b n 2 3"] | None = None,
    ) -> MatchOutput:
        source = LineSet(source_direction, source_moment, source_endpoints)
        target = LineSet(target_direction, target_moment, target_endpoints)
        return self.matcher(source, target)


def export_onnx(matcher: Matcher, path: str | Path, *, segments: bool = False) -> Path:
    """Write an ONNX graph from one pair of maps (float64, any numbers of lines) to match probabilities.

    The inputs are ``source_direction``, ``source_moment``, ``target_direction``, ``target_moment`` (1, lines, 3) and,
    with ``segments``, ``source_endpoints`` and ``target_endpoints`` (1, lines, 2, 3). The graph uses
    dense edges for any number of lines.
    """
    example = _inputs(_random_lines(9), _random_lines(7), segments)
    source, target = torch.export.Dim("m", min=2), torch.export.Dim("n", min=2)
    shapes = {name: {1: source if name.startswith("source") else target} for name in example}
    training = matcher.training
    try:
        # The fused kernels have no ONNX equivalent; the math backend has one for every operation.
        with sdpa_kernel(SDPBackend.MATH):
            program = torch.onnx.export(
                _Tensors(matcher).eval(),
                kwargs=example,
                dynamic_shapes=shapes,
                output_names=list(_OUTPUTS),
                dynamo=True,
                verbose=False,
            )
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "onnx", "export") from error
    finally:
        matcher.train(training)
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program")
    path = Path(path)
    program.save(path)
    return path


def onnx_difference(matcher: Matcher, path: str | Path, source: LineSet, target: LineSet) -> float:
    """The largest difference between ONNX Runtime's log-probabilities and PyTorch's for one unbatched pair."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise MissingDependencyError("onnxruntime", "export") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    segments = len(session.get_inputs()) == 6
    inputs = _inputs(source, target, segments)
    result = session.run([_OUTPUTS[0]], {name: value.numpy() for name, value in inputs.items()})[0]
    with torch.no_grad():
        expected = _Tensors(matcher)(**inputs).log_probability
    return float((torch.from_numpy(result) - expected).abs().max())


def _inputs(source: LineSet, target: LineSet, segments: bool) -> dict[str, Any]:
    names = ["direction", "moment"]
    inputs = {f"source_{name}": getattr(source, name)[None] for name in names}
    inputs |= {f"target_{name}": getattr(target, name)[None] for name in names}
    if segments:
        inputs |= {"source_endpoints": source.endpoints[None], "target_endpoints": target.endpoints[None]}  # type: ignore[index]
    return {name: value.to(torch.float64) for name, value in inputs.items()}


def _random_lines(count: int) -> LineSet:
    generator = torch.Generator().manual_seed(count)
    return LineSet.from_segments(torch.randn(count, 2, 3, generator=generator, dtype=torch.float64))
