"""The paper's noise acts at the origins of the frames; a registration that knows this is better."""

import torch
from tests.estimation.lines_for_tests import errors

from plueckernet.data.protocols import PaperProtocol, sample_pair
from plueckernet.data.scenes import make_scene
from plueckernet.estimation.settings import RegistrationSettings
from plueckernet.evaluation.paper_noise import ToldSettings, best_pose, register_told
from plueckernet.registration import register

SETTINGS = RegistrationSettings(directed=True, inlier_distance=1.0)


def test_noise_at_the_origin_differs_from_noise_at_the_centre():
    offset = torch.tensor([30.0, 0.0, 0.0], dtype=torch.float64)
    shifts = {"told": 0.0, "plain": 0.0}
    for seed in range(6):
        pair = sample_pair(make_scene("indoor", 50 + seed).shifted(offset), PaperProtocol(), seed)
        results = {
            "told": register_told(pair.source, pair.target, "descriptors", ToldSettings(SETTINGS)),
            "plain": register(pair.source, pair.target, matcher="descriptors", settings=SETTINGS),
        }
        assert results["told"].status is results["plain"].status
        for name, result in results.items():
            shifts[name] += errors(best_pose(result), pair.target_T_source)[1]
    assert shifts["told"] < shifts["plain"]
