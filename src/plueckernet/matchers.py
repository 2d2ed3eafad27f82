"""How lines are matched: one object that knows its method, the frame it wants the lines in and its calibration."""

from __future__ import annotations

import abc
import enum
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from plueckernet.errors import FormatError, InputError
from plueckernet.estimation.judgement import DESCRIPTOR_CALIBRATION, Calibration
from plueckernet.estimation.maps import MapPair
from plueckernet.estimation.matching import DescriptorSettings, Matches, match_log_probability, putative_matches
from plueckernet.estimation.scoring import AnchoredLines
from plueckernet.estimation.search import Matching
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.estimation.upright import consistent_rows
from plueckernet.geometry.lines import LineSet
from plueckernet.models.matcher import Matcher
from plueckernet.models.weights import load_card, load_pretrained, pretrained_path

_FEW_LINES = 64  # of either map: a faster matcher saves little on them, and errs more often


class MatchFrame(enum.Enum):
    """The frame in which a matcher wants the lines of both maps."""

    NORMALIZED = "normalized"  # centred, in units of about the radius of the maps
    ORIGINAL = "original"  # as the maps were given


class LineMatcher(abc.ABC):
    """Says which lines of two maps may be the same line.

    A matcher of your own derives from this class and implements :meth:`match`. The calibration turns the evidence for
    a pose into a confidence; without one, results say that their confidence is not calibrated. It is asked once, about
    all lines in their order, unless ``matches_parts``: then more poses are found where maps have little in common.
    """

    name: str = "unnamed matcher"
    frame: MatchFrame = MatchFrame.NORMALIZED
    calibration: Calibration | None = None
    matches_parts: bool = False  # whether it may be asked about some lines of the maps, and again about others
    first_look: LineMatcher | None = None  # a faster one that matches the longest lines first; None: this one

    @property
    def is_calibrated(self) -> bool:
        """Whether the confidence of results is fitted to this matcher."""
        return self.calibration is not None

    def matching(self, settings: RegistrationSettings) -> Matching:
        """How a search asks this matcher."""
        match, match_longest = (
            partial(matcher.putative_matches, limit=settings.max_matches, up=settings.up)
            for matcher in (self, self.first_look or self)
        )
        calibration = self.calibration or DESCRIPTOR_CALIBRATION
        return Matching(match, calibration, self.matches_parts, match_longest, self.few_lines(settings))

    def few_lines(self, settings: RegistrationSettings) -> int:
        """Up to which number of lines maps are matched at once; a faster matcher for the first look lowers it."""
        return settings.first_lines if self.first_look is None else min(_FEW_LINES, settings.first_lines)

    @abc.abstractmethod
    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair of lines."""

    def putative_matches(self, maps: MapPair, limit: int, up: Sequence[float] | None = None) -> Matches:
        """The most probable pairs of two maps; where the vertical is known, of those with the same angle to it."""
        original = self.frame is MatchFrame.ORIGINAL
        lines = maps.original_lines if original else maps.normalized_lines
        probability = self.match(*lines)
        if up is not None:
            source, target = (side.direction for side in lines)
            consistent = consistent_rows(source, target, source.new_tensor(up), maps.threshold.angle)
            probability = torch.where(consistent.to(probability.device), probability, -math.inf)
        matches = putative_matches(probability, limit)
        return matches if up is None else matches.first(int((matches.probability > 0).sum()))


class DescriptorMatcher(LineMatcher):
    """Matches by histograms of invariants; needs no weights."""

    name = "descriptors"
    calibration = DESCRIPTOR_CALIBRATION
    matches_parts = True

    def __init__(self, settings: DescriptorSettings = DescriptorSettings()) -> None:
        self._settings = settings

    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair of lines of centred maps."""
        origin = torch.zeros_like(source.direction[0])
        sides = [AnchoredLines.of(lines, origin) for lines in (source, target)]
        return match_log_probability(sides[0], sides[1], self._settings)


class NetworkMatcher(LineMatcher):
    """Matches by a network, in the frame that the network was trained in."""

    matches_parts = True

    def __init__(
        self,
        network: Matcher,
        name: str = "network",
        calibration: Calibration | None = None,
        first_look: NetworkMatcher | None = None,
    ) -> None:
        self.network = network.eval()
        self.name, self.calibration, self.first_look = name, calibration, first_look
        self.frame = MatchFrame(network.config.input_frame)

    @classmethod
    def load(cls, name: str | Path, device: str = "cpu") -> NetworkMatcher:
        """Weights by name or file, with the calibration and the first look of their card."""
        network = load_pretrained(name, device)
        if not isinstance(network, Matcher):
            raise InputError(f"{name}: these weights regress a pose and do not match lines")
        card = load_card(name)
        try:
            calibration = None if card.calibration is None else Calibration.from_dict(card.calibration)
        except InputError as error:
            raise FormatError(pretrained_path(name).with_suffix(".json"), str(error)) from error
        first_look = None if card.first_look is None else NetworkMatcher.load(card.first_look, device)
        return NetworkMatcher(network, card.name, calibration, first_look)

    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair of lines."""
        return self.network.match(source, target)


class FunctionMatcher(LineMatcher):
    """Matches by a plain function of two line sets, in the normalized frame."""

    def __init__(self, function: Callable[[LineSet, LineSet], Tensor]) -> None:
        self._function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair of lines."""
        return self._function(source, target)


MatcherSource = str | Path | LineMatcher | Matcher | Callable[[LineSet, LineSet], Tensor]
"""Whatever :func:`load_matcher` accepts."""

_BUILT_IN: dict[str, type[LineMatcher]] = {DescriptorMatcher.name: DescriptorMatcher}


def load_matcher(matcher: object, device: str = "cpu") -> LineMatcher:
    """The matcher for any :data:`MatcherSource`: a name, a file of weights, a matcher, a network or a function."""
    if isinstance(matcher, LineMatcher):
        return matcher
    if isinstance(matcher, Matcher):
        return NetworkMatcher(matcher)
    if isinstance(matcher, str | Path):
        return _loaded(str(matcher), device)
    if callable(matcher):
        return FunctionMatcher(matcher)
    raise InputError(f"expected a matcher, the name of one, or a function of two line sets; got {matcher!r}")


@lru_cache(maxsize=4)
def _loaded(name: str, device: str) -> LineMatcher:
    """Cached: reading weights takes as long as using them."""
    built_in = _BUILT_IN.get(name)
    return NetworkMatcher.load(name, device) if built_in is None else built_in()
