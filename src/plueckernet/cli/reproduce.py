"""`plueckernet reproduce`: the experiments of the paper and our own."""

from __future__ import annotations

from typing import Annotated

import typer

from plueckernet.cli.evaluating import Data, Device, Limit, Out, WeightsFolder, Workers, pair_bar, parsed_data


def reproduce(
    experiments: Annotated[list[str], typer.Argument(metavar="EXPERIMENT…", help="Names, or all.")],
    out: Out,
    data: Data = None,
    limit: Limit = None,
    device: Device = "cpu",
    workers: Workers = 1,
    weights: WeightsFolder = None,
) -> None:
    """Make tables and figures of the paper: DIR/EXPERIMENT.json, .md, .tex, .png and .svg.

    Experiments: table1, table1-each-axis, recipes, scenes, error-sources, recall, overlap, generalisation, noise,
    matchability, timing, odometry, undirected, rotation, translation, wrong-matches, bound, ablations.
    Predictions are kept in DIR/predictions and not computed twice.
    """
    import torch

    from plueckernet.errors import InputError
    from plueckernet.evaluation.experiments import EXPERIMENTS, recipes
    from plueckernet.evaluation.reproduce import reproduce as run
    from plueckernet.evaluation.runner import Runner, RunSettings

    files = parsed_data(data)
    names = list(EXPERIMENTS) if experiments == ["all"] else experiments
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise InputError(f"unknown experiment {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}, or all")
    if experiments == ["all"] and "ablations" not in files:
        names.remove("ablations")
        typer.echo(
            "without ablations, which are trained first (plueckernet evaluate ablations): --data ablations=FILE",
            err=True,
        )
    if experiments == ["all"] and not recipes.available(weights):
        names.remove("recipes")
        typer.echo("without recipes, for which weights are trained first (pluecker-paper): --weights DIR", err=True)
    torch.set_num_threads(1)  # as in the worker processes, so that timings compare
    settings = RunSettings(out / "predictions", limit, device, workers, weights, files)
    with pair_bar("pairs") as progress, Runner(settings, progress) as runner:
        plans = [plan for plan in (EXPERIMENTS[name].plan for name in names) if plan is not None]
        runner.compute([request for plan in plans for request in plan.requests(runner)])
        for name in names:
            document = run(EXPERIMENTS[name], runner, out)
            typer.echo(f"{EXPERIMENTS[name].title} -> {out / name}.*")
            for sentence in EXPERIMENTS[name].findings(document.values):
                typer.echo(f"  {sentence}")
