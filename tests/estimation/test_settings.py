"""Every number that decides behaviour is a field of frozen settings, and no field takes a value without meaning."""

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import pytest

from plueckernet.errors import InputError
from plueckernet.estimation.candidates import CandidateSettings
from plueckernet.estimation.icl import IclSettings
from plueckernet.estimation.matching import DescriptorSettings
from plueckernet.estimation.published import PublishedSettings
from plueckernet.estimation.settings import RegistrationSettings


def nested(settings):
    yield settings
    for field in fields(settings):
        if is_dataclass(getattr(settings, field.name)):
            yield from nested(getattr(settings, field.name))


EVERY = [*nested(RegistrationSettings()), DescriptorSettings(), IclSettings(), PublishedSettings()]
ALL = list({type(settings): settings for settings in EVERY}.values())
MEANINGLESS = {int: (-1,), float: (float("nan"), -1.0, float("-inf"))}
CASES = [
    (settings, field.name, value)
    for settings in ALL
    for field in fields(settings)
    for value in MEANINGLESS.get(type(getattr(settings, field.name)), ())
]


@pytest.mark.parametrize(("settings", "name", "value"), CASES, ids=lambda case: str(case)[:24])
def test_a_number_without_meaning_is_refused(settings, name, value):
    with pytest.raises(InputError, match=rf"{type(settings).__name__}\.{name}"):
        replace(settings, **{name: value})


@pytest.mark.parametrize("name", ["inlier_distance", "position_noise", "direction_noise"])
@pytest.mark.parametrize("value", [0.0, -0.1, float("inf")])
def test_optional_lengths_are_positive(name, value):
    with pytest.raises(InputError, match=rf"RegistrationSettings\.{name}"):
        RegistrationSettings(**{name: value})


def test_fewer_candidates_are_refined_where_the_vertical_is_known():
    upright = RegistrationSettings(up=(0.0, 0.0, 1.0))
    assert RegistrationSettings().constrained(CandidateSettings()) == CandidateSettings()
    assert upright.constrained(CandidateSettings()).max_candidates < CandidateSettings().max_candidates
    fewer = replace(upright, candidates=CandidateSettings(max_candidates=1))
    assert fewer.constrained(fewer.candidates) == fewer.candidates
    closer = upright.closer_look
    assert upright.constrained(closer).max_candidates == closer.max_candidates / 2


@pytest.mark.parametrize("settings", ALL, ids=lambda settings: type(settings).__name__)
def test_settings_do_not_change(settings):
    with pytest.raises(FrozenInstanceError):
        setattr(settings, fields(settings)[0].name, None)


def test_unknown_settings_are_refused():
    with pytest.raises(TypeError, match="surprise"):
        RegistrationSettings(surprise=1)
