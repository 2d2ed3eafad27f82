"""Both networks: what batching, order, signs, motions and odd sizes must not change."""

from dataclasses import replace

import pytest
import torch
from tests.models.random_lines import parallel_lines, random_lines

from plueckernet.data.protocols import ScanProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.errors import InputError, ShapeError
from plueckernet.geometry import LineSet, Pose, Similarity, stack_lines
from plueckernet.models import InvariantConfig, Matcher, PlueckerConfig, SinkhornConfig, build_matcher
from plueckernet.models.matcher import config_from_dict, config_to_dict
from plueckernet.models.transport import top_k_matches
from plueckernet.models.weights import load_pretrained

INVARIANT = InvariantConfig(layers=4)
TRANSPORT = replace(INVARIANT, assignment="transport", sinkhorn=SinkhornConfig(0.1, 10))
SPARSE = replace(INVARIANT, dense_limit=8, neighbours=12)
PLUECKER = PlueckerConfig(layers=4)
TRIED = replace(PLUECKER, fast_attention=True, orthogonal_subspaces=True)  # what the paper tried and dropped
ALL = pytest.mark.parametrize(
    "config", [INVARIANT, TRANSPORT, SPARSE, PLUECKER, TRIED], ids=["dual", "ot", "sparse", "pluecker", "tried"]
)
INVARIANTS = pytest.mark.parametrize("config", [INVARIANT, TRANSPORT, SPARSE], ids=["dual", "ot", "sparse"])
SEGMENTS = pytest.mark.parametrize("segments", [True, False], ids=["segments", "infinite"])


def matcher(config: InvariantConfig | PlueckerConfig) -> Matcher:
    torch.manual_seed(0)
    return build_matcher(config).eval()


@torch.no_grad()
def match(net: Matcher, source: LineSet, target: LineSet) -> torch.Tensor:
    return net(stack_lines([source]), stack_lines([target])).log_probability[0]


@ALL
@SEGMENTS
@torch.no_grad()
def test_a_padded_batch_is_its_pairs_one_at_a_time(config, segments):
    net = matcher(config)
    sources = [random_lines(n, seed, segments=segments) for seed, n in enumerate((20, 13, 27))]
    targets = [random_lines(n, seed + 9, segments=segments) for seed, n in enumerate((17, 24, 5))]
    together = net(stack_lines(sources), stack_lines(targets))
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        m, n = len(source), len(target)
        single = net(stack_lines([source]), stack_lines([target]))
        torch.testing.assert_close(together.log_probability[i, :m, :n], single.log_probability[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            together.source_matchability[i, :m], single.source_matchability[0], atol=1e-5, rtol=0
        )
        assert together.log_probability[i, m:].isneginf().all()
        assert together.log_probability[i, :, n:].isneginf().all()
        assert not together.target_matchability[i, n:].any()


@ALL
@torch.no_grad()
def test_no_mask_is_a_full_mask(config):
    net = matcher(config)
    source, target = random_lines(12, 0), random_lines(12, 1)
    bare = [lines.replaced(direction=lines.direction[None], moment=lines.moment[None], endpoints=lines.endpoints[None])
            for lines in (source, target)]  # fmt: skip
    torch.testing.assert_close(net(*bare).log_probability[0], match(net, source, target), atol=1e-5, rtol=1e-5)


@ALL
def test_one_pair_needs_no_batch(config):
    net = matcher(config)
    source, target = random_lines(12, 0), random_lines(9, 1)
    torch.testing.assert_close(net.match(source, target), match(net, source, target), atol=1e-5, rtol=1e-5)


@ALL
def test_permuting_lines_permutes_the_output(config):
    net = matcher(config)
    source, target = random_lines(21, 0), random_lines(18, 1)
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.randperm(count, generator=generator) for count in (21, 18))
    moved = match(net, source[p], target[q])
    torch.testing.assert_close(moved, match(net, source, target)[p][:, q], atol=2e-5, rtol=1e-5)


@INVARIANTS
@SEGMENTS
@pytest.mark.parametrize("distance", [10.0, 1e6])
@pytest.mark.parametrize("lines", [random_lines, parallel_lines])
def test_signs_and_motions_change_nothing(config, segments, distance, lines):
    net = matcher(config)
    generator = torch.Generator().manual_seed(5)
    source, target = lines(23, 0, segments=segments), lines(19, 1, segments=segments)
    before = match(net, source, target)
    poses = [Pose.random(generator=generator, translation=distance) for _ in range(2)]
    signs = [torch.rand(len(side), generator=generator) < 0.5 for side in (source, target)]
    after = match(net, (poses[0] @ source).flipped(signs[0]), (poses[1] @ target).flipped(signs[1]))
    assert (after - before).abs().max() < 1e-4


@INVARIANTS
def test_the_unit_changes_nothing(config):
    net = matcher(config)
    source, target = random_lines(23, 0), random_lines(19, 1)
    millimetres = Similarity.from_pose(Pose.identity(), scale=1000.0)
    after = match(net, millimetres @ source, millimetres @ target)
    torch.testing.assert_close(after, match(net, source, target), atol=1e-4, rtol=0)


@pytest.mark.parametrize("signed", [True, False])
def test_a_mirror_image_is_told_apart_by_what_is_signed(signed):
    net = matcher(replace(INVARIANT, signed=signed))
    lines = random_lines(20)
    mirror = LineSet.from_segments(lines.endpoints * torch.tensor([-1.0, 1, 1]))
    difference = (match(net, lines, mirror) - match(net, lines, lines)).abs().max()
    assert difference > 1e-2 if signed else difference < 1e-4


@SEGMENTS
@pytest.mark.parametrize("config", [INVARIANT, SPARSE, replace(INVARIANT, signed=False)], ids=["all", "few", "plain"])
def test_inference_reads_off_tables_what_training_computes(config, segments):
    net = matcher(config)
    torch.nn.init.normal_(net.trunk.encoder.shift)
    source, target = (random_lines(40, seed, segments=segments) for seed in (0, 1))
    computed = net(stack_lines([source]), stack_lines([target])).log_probability[0].detach()
    torch.testing.assert_close(match(net, source, target), computed, atol=1e-3, rtol=0)
    torch.nn.init.normal_(net.trunk.encoder.shift)  # new weights, new tables
    again = net(stack_lines([source]), stack_lines([target])).log_probability[0].detach()
    assert not torch.allclose(again, computed, atol=1e-2)
    torch.testing.assert_close(match(net, source, target), again, atol=1e-3, rtol=0)


@SEGMENTS
def test_tables_keep_the_matches_of_the_shipped_weights(segments):
    net = load_pretrained("invariant")
    pair = sample_pair(make_scene("indoor", 7), ScanProtocol(overlap=0.6), 7)
    source, target = (lines if segments else lines.infinite() for lines in (pair.source, pair.target))
    computed = net(stack_lines([source]), stack_lines([target])).log_probability.detach()
    tabulated = match(net, source, target)[None]
    likely = computed > -8
    torch.testing.assert_close(tabulated[likely], computed[likely], atol=1e-2, rtol=0)
    matches = [top_k_matches(log_p, 50, mutual=True) for log_p in (computed, tabulated)]
    first, second = (set(zip(best.source[0].tolist(), best.target[0].tolist(), strict=True)) for best in matches)
    assert first == second


def test_without_training_lines_already_resemble_themselves():
    net = matcher(INVARIANT)
    lines = random_lines(60)
    pose = Pose.random(generator=torch.Generator().manual_seed(2), translation=100.0)
    log_p = match(net, lines, pose @ lines)
    assert (log_p.argmax(-1) == torch.arange(60)).float().mean() > 0.9


def test_sparse_edges_to_all_lines_are_the_dense_ones():
    dense = match(matcher(INVARIANT), random_lines(20), random_lines(20, 1))
    sparse = match(matcher(replace(INVARIANT, dense_limit=0)), random_lines(20), random_lines(20, 1))
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-5)


def test_endpoints_count_only_if_both_sides_have_them():
    net = matcher(INVARIANT)
    source, target = random_lines(12), random_lines(12, 1)
    neither = match(net, source.infinite(), target.infinite())
    torch.testing.assert_close(match(net, source, target.infinite()), neither, atol=1e-5, rtol=1e-5)
    assert (match(net, source, target) - neither).abs().max() > 1e-3


@ALL
@SEGMENTS
@pytest.mark.parametrize("sizes", [(1, 1), (1, 9), (9, 1), (3, 2), (7, 0), (0, 7), (0, 0)])
def test_odd_sizes(config, segments, sizes):
    m, n = sizes
    net = matcher(config)
    source, target = (random_lines(20, k, segments=segments)[torch.arange(count)] for k, count in enumerate(sizes))
    with torch.no_grad():
        out = net(stack_lines([source]), stack_lines([target]))
    assert out.log_probability.shape == (1, m, n)
    assert out.log_probability.isfinite().all()
    assert out.source_matchability.isfinite().all()
    if config in (TRANSPORT, PLUECKER) and m and n:
        torch.testing.assert_close(out.log_probability.exp().sum(), torch.tensor(1.0))


@ALL
@SEGMENTS
def test_parallel_lines_stay_finite(config, segments):
    log_p = match(matcher(config), parallel_lines(15, 0, segments=segments), parallel_lines(12, 1, segments=segments))
    assert log_p.isfinite().all()


@pytest.mark.parametrize("neighbours", [1, 10, 100])
def test_any_number_of_neighbours(neighbours):
    log_p = match(matcher(replace(PLUECKER, neighbours=neighbours)), random_lines(5), random_lines(7, 1))
    assert log_p.isfinite().all()


@pytest.mark.parametrize(
    "config",
    [
        replace(PLUECKER, style="batch-relu"),
        replace(PLUECKER, subspace_coding=False),
        replace(PLUECKER, cross_attention=False),
        replace(PLUECKER, matchability_prior=False),
        replace(PLUECKER, hemisphere=True),
        replace(INVARIANT, cross_attention=False),
        replace(INVARIANT, matchability_prior=False),
        replace(INVARIANT, filters=0),
        replace(INVARIANT, scale="metric"),
        replace(INVARIANT, signed=False),
        replace(INVARIANT, local=False),
    ],
)
def test_every_switch_trains(config):
    net = matcher(config).train()
    out = net(stack_lines([random_lines(6)] * 2), stack_lines([random_lines(7, 1)] * 2))
    out.log_probability.sum().backward()
    idle = {name for name, p in net.named_parameters() if p.grad is None or not p.grad.isfinite().all()}
    assert not idle


def test_without_a_prior_matchabilities_are_uniform():
    out = matcher(replace(PLUECKER, matchability_prior=False))(
        stack_lines([random_lines(6)]), stack_lines([random_lines(8, 1)])
    )
    torch.testing.assert_close(out.source_matchability, torch.full((1, 6), 1 / 6))


def test_gradients_of_the_whole_matcher():
    torch.manual_seed(0)
    net = build_matcher(replace(INVARIANT, layers=2)).double()
    source, target = stack_lines([random_lines(4)]), stack_lines([random_lines(3, 1)])
    parameters = dict(net.named_parameters())
    chosen = ["trunk.encoder.gain", "trunk.layers.1.merge.bias", "head.project.bias"]

    def forward(*values: torch.Tensor) -> torch.Tensor:
        overridden = {**parameters, **dict(zip(chosen, values, strict=True))}
        return torch.func.functional_call(net, overridden, (source, target)).log_probability

    assert torch.autograd.gradcheck(forward, [parameters[name] for name in chosen], fast_mode=True)


def test_an_unbatched_set_is_refused():
    with pytest.raises(ShapeError, match="batch"):
        matcher(PLUECKER)(random_lines(3), random_lines(3))


@pytest.mark.parametrize("config", [TRANSPORT, PLUECKER])
def test_a_config_survives_being_plain_data(config):
    assert config_from_dict(config_to_dict(config)) == config


@pytest.mark.parametrize("data", [{}, {"network": "other"}, {"network": "invariant", "depth": 3},
                                  {"network": "pluecker", "sinkhorn": {"lambda": 1}}])  # fmt: skip
def test_unknown_settings_are_refused(data):
    with pytest.raises(InputError, match="unknown"):
        config_from_dict(data)
