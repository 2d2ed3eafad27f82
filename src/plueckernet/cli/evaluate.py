"""`plueckernet evaluate`: methods on one dataset under one protocol."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from plueckernet.cli.evaluating import Data, Device, WeightsFolder, Workers, pair_bar, parsed_data


class ProtocolName(enum.StrEnum):
    """How a scene becomes a pair."""

    PAPER = "paper"
    UNDIRECTED = "undirected"
    ANY = "any"
    SCAN = "scan"
    RECORDED = "recorded"


def evaluate(
    methods: Annotated[list[str], typer.Argument(metavar="METHOD…", help="ours, icl, pluecker-indoor, …")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder in which predictions are kept.")],
    dataset: Annotated[str, typer.Option(help="indoor, outdoor or block.")] = "indoor",
    protocol: Annotated[ProtocolName, typer.Option(help="How a scene becomes a pair.")] = ProtocolName.PAPER,
    keep: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of lines kept; of a scan: in common.")] = 0.7,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs to evaluate on.")] = 100,
    data: Data = None,
    device: Device = "cpu",
    workers: Workers = 1,
    weights: WeightsFolder = None,
) -> None:
    """Measure methods: errors, success, matches, time. Prints JSON; pairs that are known are not computed again.

    Protocols: paper (directed, up to 45° about each axis), undirected (the same, directions unknown), any (any
    rotation, directions unknown), scan (two surveys of neighbouring places), recorded (pairs of a prepared dataset).
    """
    import torch

    from plueckernet.data.protocols import AnyProtocol, PaperProtocol, ScanProtocol
    from plueckernet.evaluation.protocols import Protocol, Recorded
    from plueckernet.evaluation.runner import Runner, RunSettings
    from plueckernet.evaluation.summary import summarise

    protocols: dict[ProtocolName, Protocol] = {
        ProtocolName.PAPER: PaperProtocol(keep=keep),
        ProtocolName.UNDIRECTED: PaperProtocol(directed=False, keep=keep),
        ProtocolName.ANY: AnyProtocol(keep=keep),
        ProtocolName.SCAN: ScanProtocol(overlap=keep),
        ProtocolName.RECORDED: Recorded(),
    }
    torch.set_num_threads(1)
    settings = RunSettings(out, None, device, workers, weights, parsed_data(data))
    with pair_bar(dataset) as progress, Runner(settings, progress) as runner:
        cells = [runner.cell(dataset, protocols[protocol], method) for method in methods]
        found = runner.run(cells, pairs)
    results: dict[str, Any] = {method: summarise(one) for method, one in zip(methods, found, strict=True)}
    typer.echo(json.dumps({"dataset": dataset, "protocol": protocol, "keep": keep, "results": results}, indent=1))
