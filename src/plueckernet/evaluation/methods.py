"""The methods that are compared, by name.

A method sees a pair's lines and nothing else, but for those that are told matches: the maximum-likelihood bound, and
the two estimators that are compared on putative matches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from plueckernet.data.protocols import LinePair
from plueckernet.errors import DegenerateError, InputError
from plueckernet.estimation.icl import IclSettings, icl
from plueckernet.estimation.match_refinement import refine_matches
from plueckernet.estimation.matching import putative_matches
from plueckernet.estimation.published import PublishedSettings, published_pose
from plueckernet.estimation.ransac import RansacSettings, ransac_pose
from plueckernet.estimation.scoring import AnchoredLines, InlierThreshold, RowScorer
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.oracle import anchored, oracle_pose
from plueckernet.evaluation.paper_noise import ToldSettings, register_told
from plueckernet.evaluation.protocols import PutativePair
from plueckernet.evaluation.provenance import network_hash, weights_hash
from plueckernet.geometry.lines import LineSet, stack_lines
from plueckernet.geometry.pose import Pose
from plueckernet.geometry.residuals import NoiseModel
from plueckernet.matchers import LineMatcher, MatcherSource, NetworkMatcher
from plueckernet.models.matcher import pair_up
from plueckernet.models.regression import PoseRegressor
from plueckernet.models.weights import load_pretrained, pretrained_path
from plueckernet.registration import register
from plueckernet.result import RegistrationResult

_T = TypeVar("_T")
Matchability = tuple[Float[Tensor, " m"], Float[Tensor, " n"]]


@dataclass(frozen=True, eq=False)
class Estimate:
    """What a method says about a pair, and how long each stage took."""

    target_T_source: Pose | None
    seconds: Mapping[str, float]  # of features, matching and pose, as far as the method has them
    matches: Int[Tensor, "k 2"] | None = None  # lines that the pose aligns
    putative: Int[Tensor, "p 2"] | None = None  # matches from which the pose was estimated
    matchability: Matchability | None = None  # of source and target lines
    reason: str = ""  # why there is no pose
    result: RegistrationResult | None = None  # of methods that judge their poses; others accept what they find


Estimator = Callable[[LinePair], Estimate]
Settings = IclSettings | PublishedSettings | RegistrationSettings | ToldSettings | RansacSettings | NoiseModel | None


@dataclass(frozen=True)
class Method:
    """One method: its name, its settings and its weights."""

    name: str
    build: Callable[[Method, str], Estimator]  # with the device
    settings: Settings = None
    weights: Path | None = None

    def config(self) -> dict[str, Any]:
        """What its predictions depend on; weights that are not there raise :class:`InputError`."""
        config: dict[str, Any] = {"method": self.name, "settings": asdict(self.settings) if self.settings else {}}
        if self.weights is not None:
            config["weights"] = weights_hash(self.weights)
        return config

    def load(self, device: str = "cpu") -> Estimator:
        """Ready to run."""
        return self.build(self, device)


def all_methods(weights: Path | None = None) -> dict[str, Method]:
    """Every method by name; weights are those in the folder ``weights`` and, for what it lacks, the package's."""
    if weights is not None and not weights.is_dir():
        raise InputError(f"{weights}: no such folder of weights")

    def file(name: str) -> Path:
        own = None if weights is None else weights / f"{name}.safetensors"
        return own if own is not None and own.is_file() else Path(name)

    told = ToldSettings()  # what the paper's method takes for granted
    methods = [
        Method("icl", _icl, IclSettings()),
        Method("icl-undirected", _icl, IclSettings(sign_aware=True)),
        Method("ours", _registered, RegistrationSettings(), file("invariant")),
        Method("ours-told", _registered, told, file("invariant")),
        Method("ours-without-weights", _registered, RegistrationSettings()),
        UncalibratedMethod("ours-network", _matchability, RegistrationSettings(), file("invariant")),
        Method("bound", _bound, NoiseModel()),
        Method("ransac-published", _published_ransac, PublishedSettings()),
        Method("ransac-ours", _our_ransac, RansacSettings()),
    ]
    for domain in ("indoor", "outdoor"):
        net, regressor = file(f"pluecker-{domain}"), file(f"regression-{domain}")
        methods += [
            Method(f"regression-{domain}", _regression, None, regressor),
            published_method(f"pluecker-{domain}", net),
            published_method(f"pluecker-paper-{domain}", file(f"pluecker-paper-{domain}")),
            Method(f"pluecker-{domain}-refined", _registered, told, net),
        ]
    return {method.name: method for method in methods}


def register_method(matcher: str, directed: bool = False, upright: bool = False) -> Method:
    """:func:`plueckernet.register` with some matcher: "descriptors", weights of the package, or a file of weights."""
    weights = None if matcher == "descriptors" else Path(matcher)
    settings = RegistrationSettings(directed=directed, up=(0.0, 0.0, 1.0) if upright else None)
    return Method(f"register-{Path(matcher).stem}", _registered, settings, weights)


@dataclass(frozen=True)
class UncalibratedMethod(Method):
    """A method whose poses are judged afterwards or not at all: its predictions outlive a change of the calibration."""

    def config(self) -> dict[str, Any]:
        """What poses and evidence depend on: the network, not what its card says about confidence."""
        config = Method(self.name, self.build, self.settings).config()
        return config if self.weights is None else config | {"weights": network_hash(self.weights)}


def uncalibrated_method(matcher: str, directed: bool = False, upright: bool = False) -> UncalibratedMethod:
    """As :func:`register_method`, for measurements that judge the evidence with a calibration of their own."""
    method = register_method(matcher, directed, upright)
    return UncalibratedMethod(f"{method.name}-evidence", method.build, method.settings, method.weights)


def published_method(name: str, weights: Path) -> Method:
    """The paper's method with some weights of its network; it does not judge its poses."""
    return UncalibratedMethod(name, _published, PublishedSettings(), weights)


def published_lines(pair: LinePair) -> tuple[LineSet, LineSet]:
    """The maps as all methods of the paper read them: infinite lines with a direction.

    Recorded segments have none, so the paper's hemisphere rule (Sec. 3.1) gives them one, in the frame of their own
    map. The paper's protocol has applied the rule already, before the motion.
    """
    if pair.source.endpoints is None and pair.target.endpoints is None:
        return pair.source, pair.target
    return pair.source.infinite().on_hemisphere(), pair.target.infinite().on_hemisphere()


# Without networks


def _icl(method: Method, _device: str) -> Estimator:
    settings = _settings(method, IclSettings)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        source, target = published_lines(pair)
        result = icl(source, target, settings=settings)
        return Estimate(result.target_T_source, {"pose": time.perf_counter() - start}, result.matches)

    return estimate


def _registered(method: Method, device: str) -> Estimator:
    """:func:`plueckernet.register` with the matcher that a user would name: some weights or, without any, descriptors.

    It must be that matcher and no other object with its network: only the former may be asked about parts of maps, has
    a first look, and runs as fast as it can.
    """
    matcher = "descriptors" if method.weights is None else str(pretrained_path(method.weights))

    def estimate(pair: LinePair) -> Estimate:
        return _of_result(_register(pair, matcher, method, device))

    return estimate


def _register(pair: LinePair, matcher: MatcherSource, method: Method, device: str) -> RegistrationResult:
    """As a user would, or told what the paper's protocol takes for granted."""
    if isinstance(method.settings, ToldSettings):
        return register_told(pair.source, pair.target, matcher, method.settings, device)
    settings = _settings(method, RegistrationSettings)
    return register(pair.source, pair.target, matcher=matcher, settings=settings, device=device)


def _bound(method: Method, _device: str) -> Estimator:
    """Maximum likelihood with the right matches and the noise known."""
    noise = _settings(method, NoiseModel)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        pose = oracle_pose(pair, noise)
        return Estimate(pose, {"pose": time.perf_counter() - start}, pair.matches, reason="undetermined")

    return estimate


def _published_ransac(method: Method, _device: str) -> Estimator:
    settings = _settings(method, PublishedSettings)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        given, (source, target) = _given(pair), published_lines(pair)
        result = published_pose(source[given[:, 0]], target[given[:, 1]], settings)
        seconds = {"pose": time.perf_counter() - start}
        return Estimate(result.target_T_source, seconds, given[result.inliers])

    return estimate


def _our_ransac(method: Method, _device: str) -> Estimator:
    settings = _settings(method, RansacSettings)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        given = _given(pair)
        source, target = _rows(pair, given)
        likely = torch.ones(len(source), dtype=torch.float64)
        ranked = ransac_pose(RowScorer(source, target, InlierThreshold()), likely, settings)
        if not len(ranked.scores):
            return Estimate(None, {"pose": time.perf_counter() - start}, reason="no two matches are compatible")
        refined = refine_matches(ranked.poses[0], source, target, NoiseModel())
        seconds = {"pose": time.perf_counter() - start}
        if refined is None:
            return Estimate(ranked.poses[0], seconds)
        return Estimate(refined.pose, seconds, given[refined.matches[:, 0]])

    return estimate


def _given(pair: LinePair) -> Int[Tensor, "k 2"]:
    return pair.putative if isinstance(pair, PutativePair) else pair.matches


def _rows(pair: LinePair, matches: Int[Tensor, "k 2"]) -> tuple[AnchoredLines, AnchoredLines]:
    """The matched lines, anchored where the paper's noise acts: at the feet from either frame's origin."""
    origin = torch.zeros(3, dtype=torch.float64)
    return anchored(pair.source[matches[:, 0]], origin), anchored(pair.target[matches[:, 1]], origin)


# With networks


class TimedMatcher(LineMatcher):
    """The network of some weights, asked once about all lines; it records the time of its features and matchability."""

    def __init__(self, weights: Path, device: str) -> None:
        matcher = NetworkMatcher.load(weights, device)
        self.name, self.frame, self.calibration = matcher.name, matcher.frame, matcher.calibration
        self._network, self._device = matcher.network, device
        self.features = 0.0
        self.matchability: Matchability | None = None

    @torch.no_grad()
    def match(self, source: LineSet, target: LineSet) -> Float[Tensor, "m n"]:
        """Log-probability of each pair."""
        start = time.perf_counter()
        sides = [stack_lines([lines.to(self._device)]) for lines in (source, target)]
        x, y = self._network.trunk(pair_up(*sides)).chunk(2)
        if self._device.startswith("cuda"):
            torch.cuda.synchronize()
        self.features = time.perf_counter() - start
        output = self._network.head(x[:, : len(source)], y[:, : len(target)], sides[0].mask, sides[1].mask)
        self.matchability = output.source_matchability[0].cpu(), output.target_matchability[0].cpu()
        return output.log_probability[0].to(source.direction.device)


def _matchability(method: Method, device: str) -> Estimator:
    """Which lines the network of our default takes for those that have a match; there is no pose."""
    matcher, settings = TimedMatcher(pretrained_path(_weights(method)), device), _settings(method, RegistrationSettings)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        matcher.match(*settings.normalize(pair.source, pair.target).normalized_lines)
        seconds = {"matching": time.perf_counter() - start}
        return Estimate(None, seconds, matchability=matcher.matchability, reason="not estimated")

    return estimate


def _published(method: Method, device: str) -> Estimator:
    """The paper: the most probable matches, two-line RANSAC, joint optimisation."""
    matcher = TimedMatcher(pretrained_path(_weights(method)), device)
    settings = _settings(method, PublishedSettings)

    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        source, target = published_lines(pair)
        best = putative_matches(matcher.match(source, target), settings.matches)
        matched = time.perf_counter()
        rows, inliers, pose, reason = torch.stack([best.source, best.target], -1), None, None, ""
        try:
            result = published_pose(source[best.source], target[best.target], settings)
            pose, inliers = result.target_T_source, rows[result.inliers]
        except DegenerateError as error:
            reason = str(error)
        seconds = {
            "features": matcher.features,
            "matching": matched - start - matcher.features,
            "pose": time.perf_counter() - matched,
        }
        return Estimate(pose, seconds, inliers, rows, matcher.matchability, reason)

    return estimate


def _regression(method: Method, device: str) -> Estimator:
    network = load_pretrained(pretrained_path(_weights(method)), device)
    if not isinstance(network, PoseRegressor):
        raise InputError(f"{method.weights}: expected weights of the regression baseline")

    @torch.no_grad()
    def estimate(pair: LinePair) -> Estimate:
        start = time.perf_counter()
        pose = network(*(stack_lines([lines.to(device)]) for lines in published_lines(pair))).pose()[0]
        return Estimate(pose.to(torch.float64).to("cpu"), {"pose": time.perf_counter() - start})

    return estimate


def _of_result(result: RegistrationResult) -> Estimate:
    """Features are part of matching here: lines are matched several times, by two networks."""
    match = result.timings["match"]
    seconds = {"matching": match, "pose": sum(result.timings.values()) - match}
    pose = result.rigid_pose
    rows = None if pose is None else result.inliers
    return Estimate(pose, seconds, rows, result.matches, reason=result.reason, result=result)


def _weights(method: Method) -> Path:
    if method.weights is None:
        raise InputError(f"{method.name} needs weights")
    return method.weights


def _settings(method: Method, kind: type[_T]) -> _T:
    if not isinstance(method.settings, kind):
        raise InputError(f"{method.name}: expected {kind.__name__}, got {method.settings!r}")
    return method.settings
