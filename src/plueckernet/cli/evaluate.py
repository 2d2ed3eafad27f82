"""`plueckernet evaluate`: measure methods, matchers and the confidence on data of which the answer is known."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plueckernet.cli.evaluating import (
    Data,
    Device,
    MatcherName,
    Out,
    WeightsFolder,
    Workers,
    pair_bar,
    parsed_data,
    prepared_runner,
)

if TYPE_CHECKING:
    from plueckernet.evaluation.documents import ResultDocument

app = typer.Typer(
    name="evaluate",
    help="Measure methods, matchers and the confidence where the answer is known.",
    no_args_is_help=True,
)
PairCount = Annotated[int | None, typer.Option(min=1, help="Pairs per cell.", show_default="as in the documentation")]

Maps = Annotated[
    list[Path] | None, typer.Option("--maps", metavar="FOLDER", help="Line maps of real places; may be repeated.")
]


class ProtocolName(enum.StrEnum):
    """How a scene becomes a pair."""

    PAPER = "paper"
    UNDIRECTED = "undirected"
    ANY = "any"
    SCAN = "scan"
    RECORDED = "recorded"


class NoiseName(enum.StrEnum):
    """The two readings of the paper's noise on directions."""

    RANDOM_AXIS = "random-axis"
    EACH_AXIS = "each-axis"


@app.command()
def methods(
    names: Annotated[list[str], typer.Argument(metavar="METHOD…", help="ours, icl, pluecker-indoor, …")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder in which predictions are kept.")],
    dataset: Annotated[str, typer.Option(help="indoor, outdoor or street.")] = "indoor",
    protocol: Annotated[ProtocolName, typer.Option(help="How a scene becomes a pair.")] = ProtocolName.PAPER,
    keep: Annotated[float, typer.Option(min=0.0, max=1.0, help="Fraction kept; of a scan: in common.")] = 0.7,
    noise: Annotated[NoiseName, typer.Option(help="What noise turns lines about.")] = NoiseName.RANDOM_AXIS,
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

    from plueckernet.data.protocols import AnyProtocol, Noise, PaperProtocol, ScanProtocol
    from plueckernet.evaluation.documents import to_json
    from plueckernet.evaluation.protocols import EvaluationProtocol, Recorded
    from plueckernet.evaluation.runner import Runner, RunSettings
    from plueckernet.evaluation.summary import summarise

    protocols: dict[ProtocolName, EvaluationProtocol] = {
        ProtocolName.PAPER: PaperProtocol(keep=keep, noise=Noise(turn=noise.value)),
        ProtocolName.UNDIRECTED: PaperProtocol(directed=False, keep=keep, noise=Noise(turn=noise.value)),
        ProtocolName.ANY: AnyProtocol(keep=keep, noise=Noise(turn=noise.value)),
        ProtocolName.SCAN: ScanProtocol(overlap=keep),
        ProtocolName.RECORDED: Recorded(),
    }
    torch.set_num_threads(1)
    settings = RunSettings(out, None, device, workers, weights, parsed_data(data))
    with pair_bar(dataset) as progress, Runner(settings, progress) as runner:
        cells = [runner.cell(dataset, protocols[protocol], name) for name in names]
        predictions = runner.run(cells, pairs)
    results = {name: to_json(summarise(cell)) for name, cell in zip(names, predictions, strict=True)}
    typer.echo(json.dumps({"dataset": dataset, "protocol": protocol, "keep": keep, "results": results}, indent=1))


@app.command()
def synthetic(
    out: Out,
    matcher: MatcherName = "invariant",
    pairs: PairCount = None,
    device: Device = "cpu",
    workers: Workers = 1,
) -> None:
    """Register synthetic scenes under many protocols, and unrelated maps: DIR/synthetic_MATCHER.json."""
    from plueckernet.evaluation.result_rows import synthetic_rows
    from plueckernet.evaluation.synthetic import PAIRS, evaluate_synthetic

    with prepared_runner(out, "synthetic", device, workers) as runner:
        document = evaluate_synthetic(matcher, runner, pairs or PAIRS)
    _report(document, out, [f"{row.what}: {row.measured}" for row in synthetic_rows(document.values)])


@app.command()
def crops(
    out: Out,
    pairs_file: Annotated[Path, typer.Option(metavar="FILE.npz", help="Pairs; made of --maps if it is not there.")],
    maps: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Line maps to cut pairs from.")] = None,
    scenes: Annotated[int | None, typer.Option(min=1, help="Synthetic scenes to cut pairs from instead.")] = None,
    pairs: Annotated[int, typer.Option(min=1, help="Pairs to cut, at least.")] = 560,
    first_seed: Annotated[int | None, typer.Option(min=0, help="For another draw of pairs.")] = None,
    matcher: MatcherName = "invariant",
    device: Device = "cpu",
    workers: Workers = 1,
) -> None:
    """Register neighbouring 10 m crops of real line maps, by map and overlap: DIR/crops_MATCHER.json.

    With --maps or --scenes alone the pairs are cut and written to the file if that does not exist yet.
    """
    from plueckernet.errors import InputError
    from plueckernet.evaluation.crops import evaluate_crops
    from plueckernet.evaluation.result_rows import crop_lines

    if not pairs_file.exists():
        if (maps is None) == (scenes is None):
            raise InputError(f"{pairs_file} does not exist: give --maps or --scenes to cut the pairs from")
        _cut(pairs_file, maps, scenes or 0, pairs, first_seed)
    with prepared_runner(out, "crops", device, workers) as runner:
        document = evaluate_crops(pairs_file, matcher, runner)
    _report(document, out, crop_lines(document.values))


def _cut(file: Path, maps: Path | None, scenes: int, pairs: int, first_seed: int | None) -> None:
    import itertools
    from concurrent.futures import ProcessPoolExecutor

    from plueckernet.evaluation.crop_pairs import write_pairs
    from plueckernet.evaluation.crops import FIRST_SEED, fallen_short, sample_crops, synthetic_maps
    from plueckernet.evaluation.real_maps import read_maps

    sources = read_maps(maps) if maps is not None else synthetic_maps(scenes)
    seed, tried = FIRST_SEED if first_seed is None else first_seed, itertools.count(1)
    with pair_bar("cutting crops") as progress, ProcessPoolExecutor() as pool:
        crops = sample_crops(sources, pairs, pool, lambda: progress(min(next(tried), pairs), pairs), seed)
    write_pairs(file, crops)
    for line in (f"{len(crops)} pairs of {len(sources)} maps -> {file}", *fallen_short(crops)):
        typer.echo(line, err=True)


@app.command()
def confidence(
    out: Out,
    matcher: MatcherName = "invariant",
    pairs: PairCount = None,
    maps: Maps = None,
    real_pairs: Annotated[int | None, typer.Option(min=1, help="Pairs per kind that are cut from --maps.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Put the calibration on the card of the weights.")] = False,
    device: Device = "cpu",
    workers: Workers = 1,
) -> None:
    """Calibrate the confidence of a matcher and say how reliable it is: DIR/confidence_MATCHER.json.

    Pairs are drawn from synthetic scenes and, with --maps, cut from real line maps. Pairs of a real map are judged by
    calibrations that were fitted without that map.
    """
    from plueckernet.evaluation.confidence import (
        PAIRS,
        REAL_PAIRS,
        CalibrationData,
        evaluate_confidence,
        write_calibration,
    )
    from plueckernet.evaluation.result_rows import reliability_lines

    data = CalibrationData(pairs or PAIRS, tuple(maps or ()), real_pairs or REAL_PAIRS)
    with prepared_runner(out, "confidence", device, workers) as runner:
        document = evaluate_confidence(matcher, runner, data)
    _report(document, out, reliability_lines(document.values))
    if write:
        typer.echo(f"calibration -> {write_calibration(matcher, document.values.calibration)}")


@app.command()
def acceptance(
    out: Out,
    data: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder with crops/pairs.npz, lines/ and more_lines/.")],
    matcher: MatcherName = "invariant",
    calibration: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Of `evaluate confidence`, in place of the matcher's own calibration."),
    ] = None,
    crops: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="More crops: a --pairs-file of `evaluate crops`.")
    ] = None,
    pairs: Annotated[int | None, typer.Option(min=1, help="Crops, and maps of each group, at most.")] = None,
    unrelated: Annotated[int, typer.Option(min=1, help="Pairs of unrelated maps.")] = 5000,
    symmetric: Annotated[int, typer.Option(min=1, help="Pairs of symmetric maps.")] = 140,
    device: Device = "cpu",
    workers: Workers = 1,
) -> None:
    """Count right and wrong poses that are called a success: DIR/acceptance_MATCHER.json and DIR/pictures.

    Crops, sparse maps in dense ones, unrelated maps and symmetric maps. Every wrong pose that is called a success is
    listed and drawn beside the true one.
    """
    from plueckernet.evaluation.acceptance import AcceptanceData, evaluate_acceptance, read_calibrations
    from plueckernet.evaluation.acceptance_pictures import draw_offenders
    from plueckernet.evaluation.acceptance_rows import acceptance_lines

    settings = AcceptanceData(data, unrelated, symmetric, pairs, crops)
    given = None if calibration is None else read_calibrations(calibration)
    with prepared_runner(out, "acceptance", device, workers) as runner:
        document = evaluate_acceptance(matcher, runner, settings, given)
        drawn = draw_offenders(document.values, settings, matcher, runner, out / "pictures")
    _report(document, out, [*acceptance_lines(document.values), f"{drawn} pictures -> {out / 'pictures'}"])


@app.command()
def invariance(
    out: Out,
    real: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder with line3dpp/ and cityjson/.")] = None,
) -> None:
    """Measure how far answers change with unit and place, and register moved real maps: DIR/invariance.json."""
    import torch

    from plueckernet.evaluation.invariance import evaluate_invariance
    from plueckernet.evaluation.result_rows import invariance_rows

    torch.set_num_threads(1)
    document = evaluate_invariance(real)
    _report(document, out, [f"{row.what}: {row.measured}" for row in invariance_rows(document.values)])


@app.command()
def ablations(
    out: Out,
    device: Device = "cuda",
    steps: Annotated[int, typer.Option(min=1, help="Of each training.")] = 3000,
    batch: Annotated[int, typer.Option(min=1, help="Pairs per step.")] = 16,
    lines: Annotated[int, typer.Option(min=1, help="Per map to train on, at most.")] = 256,
    scenes: Annotated[int, typer.Option(min=1, help="To train on.")] = 4096,
    pairs: Annotated[int, typer.Option(min=1, help="Per dataset to judge by.")] = 100,
    minutes: Annotated[float | None, typer.Option(help="After which trainings stop with a checkpoint.")] = None,
    workers: Workers = 1,
) -> None:
    """Train the paper's network without each of its components, and judge it: DIR/ablations.json.

    The same command again goes on with trainings that were stopped. `plueckernet reproduce ablations` shows the result.
    """
    from plueckernet.evaluation.experiments.ablations import AblationSettings
    from plueckernet.training.ablations import AblationRun, run_ablations

    settings = AblationSettings(steps=steps, batch=batch, lines=lines, scenes=scenes, pairs=pairs)
    done, total = run_ablations(settings, AblationRun(out, device, minutes, workers))
    typer.echo(f"{done} of {total} trainings are finished and judged -> {out / 'ablations.json'}")
    if done < total:
        typer.echo("the same command again goes on with the others", err=True)
        raise typer.Exit(1)


def _report(document: ResultDocument[Any], out: Path, lines: list[str]) -> None:
    from plueckernet.evaluation.documents import write_result

    path = out / f"{document.name}.json"
    write_result(path, document)
    for line in (*lines, f"-> {path}"):
        typer.echo(line)
