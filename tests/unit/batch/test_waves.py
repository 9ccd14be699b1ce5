"""Which devices begin when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.batch.models import Rollout
from core.batch.waves import in_waves, planned_waves, sizes_of, wave_lines
from core.errors import BadInput
from core.models.devices import Device
from tests.fakes.policy_calls import a_device


def lab(*names: str, production: str = "", tags: dict[str, list[str]] | None = None) -> list[Device]:
    return [
        a_device(name, *(tags or {}).get(name, []), production=name in production.split()) for name in names
    ]


SIX = lab("db-1", "lab-1", "lab-2", "lab-3", "web-1", "web-2", production="db-1", tags={"web-1": ["canary"]})


@pytest.mark.parametrize(
    ("rollout", "waves"),
    [
        ({}, "lab-1 lab-2 lab-3 web-1 web-2 db-1"),
        ({"canary": 1}, "lab-1|lab-2 lab-3 web-1 web-2 db-1"),
        ({"canary": 1, "wave": 2}, "lab-1|lab-2 lab-3|web-1 web-2|db-1"),
        ({"canary": "tag:canary", "wave": 3}, "web-1|lab-1 lab-2 lab-3|web-2 db-1"),
        ({"canary": "name:web-*"}, "web-1 web-2|lab-1 lab-2 lab-3 db-1"),
        ({"canary": "name:*", "wave": 2}, "lab-1 lab-2 lab-3 web-1 web-2 db-1"),
        ({"canary": "10%", "wave": "50%"}, "lab-1|lab-2 lab-3 web-1|web-2 db-1"),
        ({"canary": 1, "order": "as_listed"}, "db-1|lab-1 lab-2 lab-3 web-1 web-2"),
        ({"canary": "name:db-1"}, "db-1|lab-1 lab-2 lab-3 web-1 web-2"),
        ({"canary": 99}, "lab-1 lab-2 lab-3 web-1 web-2 db-1"),
        ({"wave": "100%"}, "lab-1 lab-2 lab-3 web-1 web-2 db-1"),
    ],
)
def test_the_canary_goes_first_and_production_last(rollout: dict[str, object], waves: str) -> None:
    planned = planned_waves(Rollout.model_validate(rollout), SIX)
    assert "|".join(" ".join(wave) for wave in planned) == waves


@pytest.mark.parametrize("canary", ["tag:nobody", "name:canary"])
def test_a_canary_that_none_of_the_devices_is_is_refused(canary: str) -> None:
    with pytest.raises(BadInput, match="No device of this batch is its canary"):
        planned_waves(Rollout(canary=canary), SIX)


def test_a_filter_that_is_malformed_says_where() -> None:
    with pytest.raises(BadInput, match="Column"):
        planned_waves(Rollout(canary="size:3"), SIX)


counts = st.one_of(st.none(), st.integers(1, 40), st.integers(1, 100).map(lambda part: f"{part}%"))


@given(
    production=st.lists(st.booleans(), min_size=1, max_size=60),
    canary=st.one_of(counts, st.just("name:*1*")),
    wave=counts,
)
def test_each_device_is_in_one_wave_and_a_run_that_is_read_again_has_the_same(
    production: list[bool], canary: int | str | None, wave: int | str | None
) -> None:
    devices = [a_device(f"d-{number:02}", production=is_so) for number, is_so in enumerate(production)]
    try:
        waves = planned_waves(Rollout(canary=canary, wave=wave), devices)
    except BadInput:
        assert isinstance(canary, str)
        return
    order = [name for one in waves for name in one]
    assert sorted(order) == [device.name for device in devices]
    assert all(waves)
    assert in_waves(order, sizes_of(waves) or [len(order)]) == waves
    if canary is None or not str(canary).startswith("name:"):
        risky = [device.name for device in devices if device.production]
        assert order[len(order) - len(risky) :] == risky, "production comes last"


def test_lines_name_production_first_and_end() -> None:
    waves = [["a"], ["b", "c", "d", "e", "f", "db"], *([f"x{number}"] for number in range(8))]
    assert wave_lines(waves, ["db", "x7"], most=3) == [
        "Wave 1: a",
        "Wave 2: db (production), b, c, d, e and 1 more",
        "Wave 3: x0",
        "Waves 4 to 10: 7 devices, 1 of them in production",
    ]
