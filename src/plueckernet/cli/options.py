"""Options that several commands have."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from plueckernet.estimation.settings import RegistrationSettings
    from plueckernet.estimation.similarity.search import ScaleChoice

MatcherOption = Annotated[
    str, typer.Option("--matcher", metavar="NAME", help="Weights, by name or file, or 'descriptors' (no weights).")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: judgement.min_confidence=0.8"),
]
FromOption = Annotated[
    list[str] | None,
    typer.Option(
        "--from", metavar="FORMAT", help="Format of the files; twice: of SOURCE, of TARGET.", show_default="by content"
    ),
]
LodOption = Annotated[
    str | None, typer.Option(help="Level of detail of CityJSON or CityGML.", show_default="the highest")
]
TypesOption = Annotated[list[str] | None, typer.Option("--type", metavar="IFCTYPE", help="Elements of IFC: IfcWall, …")]
StoreyOption = Annotated[str | None, typer.Option(metavar="NAME", help="Storey of IFC.", show_default="all")]
ForceOption = Annotated[bool, typer.Option("--force", help="Allow an output to replace an input.")]
DeviceOption = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, ...")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
JsonOption = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - for standard output.")
]
AlignedOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the source in the target frame, if there is a pose.")
]
ReportOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write an HTML report: both maps, the pose, the evidence.")
]
PlotOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a picture of both maps before and after registration.")
]
InlierThresholdOption = Annotated[
    float | None,
    typer.Option(
        metavar="LENGTH", help="Largest distance of matching lines, in map units.", show_default="from the maps"
    ),
]
SimilarityOption = Annotated[
    bool, typer.Option("--similarity", help="The scale between the maps is unknown: search for it as well.")
]
ScaleRangeOption = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Search for a scale in this range: 0.9 1.1", show_default="the same unit"),
]
UprightOption = Annotated[
    bool, typer.Option("--upright", help="The z axis of both maps is vertical: search only for turns about it.")
]
UpOption = Annotated[
    tuple[float, float, float] | None,
    typer.Option(
        metavar="X Y Z", help="The vertical of both maps, where it is not the z axis.", show_default="unknown"
    ),
]
_REQUIRED = "Confidence that a pose needs to be accepted. Of the poses accepted, about 1 - C or fewer are wrong."
MinConfidenceOption = Annotated[float, typer.Option(metavar="C", min=0.0, max=1.0, help=_REQUIRED)]


def registration_settings(
    directed: bool, inlier_threshold: float | None, min_confidence: float, assignments: list[str] | None
) -> RegistrationSettings:
    """The settings of the options, then those of `--set`."""
    from plueckernet.errors import InputError
    from plueckernet.estimation.judgement import JudgementSettings
    from plueckernet.estimation.settings import RegistrationSettings
    from plueckernet.settings import with_values

    if inlier_threshold is not None and not 0 < inlier_threshold < math.inf:
        raise InputError(f"--inlier-threshold: expected a positive length, got {inlier_threshold}")
    judgement = JudgementSettings(min_confidence=min_confidence)
    settings = RegistrationSettings(directed=directed, inlier_distance=inlier_threshold, judgement=judgement)
    return with_values(settings, assignments or ())


def scale_choice(similarity: bool, scale_range: tuple[float, float] | None) -> ScaleChoice:
    """What `--similarity` and `--scale-range` ask for."""
    from plueckernet.errors import InputError

    if similarity and scale_range is not None:
        raise InputError("--similarity searches for any scale, --scale-range for one in a range: give one of them")
    return "unknown" if similarity else scale_range


def vertical(upright: bool, up: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
    """What `--upright` and `--up` say."""
    from plueckernet.errors import InputError

    if upright and up is not None:
        raise InputError("--upright means --up 0 0 1: give one of them")
    return (0.0, 0.0, 1.0) if upright else up


def check_device(name: str) -> None:
    """Raise :class:`InputError` if the device does not exist."""
    import torch

    from plueckernet.errors import InputError

    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:  # torch raises AssertionError for a device it was built without
        raise InputError(f"--device {name}: {str(error).splitlines()[0]}") from error
