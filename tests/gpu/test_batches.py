"""Pairs registered in batches on a GPU have the results of one at a time on the CPU."""

import pytest

from plueckernet.data import AnyProtocol, LinePair, ScanProtocol, make_scene, sample_pair, unrelated_pair
from plueckernet.registration import register, register_many

pytestmark = pytest.mark.gpu

PROTOCOLS = {
    "scan": ScanProtocol(overlap=0.6),
    "segments": AnyProtocol(segments=True),
    "infinite": AnyProtocol(segments=False),
}


def house(protocol: str, seed: int) -> LinePair:
    return sample_pair(make_scene("indoor", seed), PROTOCOLS[protocol], seed)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_batch_has_the_results_of_one_at_a_time(device, protocol):
    pairs = [(pair.source, pair.target) for pair in (house(protocol, seed) for seed in range(7, 12))]
    together = list(register_many(pairs, device=device, batch_size=4))
    for pair, result in zip(pairs, together, strict=True):
        single, on_cpu = register(*pair, device=device), register(*pair)
        assert result.status is single.status is on_cpu.status, (result.reason, single.reason, on_cpu.reason)
        # The network rounds otherwise on a CPU, so that other matches may be the last ones that are used.
        for other, limit in ((single, 1e-6), (on_cpu, 1e-4)):
            apart = result.target_T_source.matrix() - other.target_T_source.matrix()
            assert float(apart.abs().max()) < limit
        assert abs(result.confidence - single.confidence) < 1e-4
        assert result.covariance.device.type == "cpu"


def test_unrelated_and_empty_maps_fail_there_too(device):
    unrelated = unrelated_pair(make_scene("indoor", 3), make_scene("indoor", 4), PROTOCOLS["scan"], 0)
    pair = house("scan", 7)
    pairs = [unrelated, (pair.source[:0], pair.target), (pair.source, pair.target)]
    statuses = [result.status for result in register_many(pairs, device=device, batch_size=3)]
    assert statuses == [result.status for result in register_many(pairs)]
