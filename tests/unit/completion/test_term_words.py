"""The words at the end of a filter or a query, as its language reads them."""

from __future__ import annotations

import pytest

from core.completion.term_words import term_offers
from core.completion.words import Offer
from core.models.device_filter import FIELDS, parse_filter
from core.models.devices import Device, Health
from tests.fakes.fleet_data import ago

NAMES = ["lab-1", "lab-2", "Lab One", "a,b", "it's", 'say "x"', "c:d", "w*"]


def offered(text: str) -> list[str]:
    def values(field: str) -> list[Offer]:
        return [Offer(name) for name in NAMES] if field in ("", "name") else [Offer("online")]

    return [offer.text for offer in term_offers(text, FIELDS, values, "\"'")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("na", ["name:"]),
        ("la", ["lab-1", "lab-2"]),
        ("name:la", ["name:lab-1", "name:lab-2"]),
        ("!name:lab-1,la", ["!name:lab-1,lab-1", "!name:lab-1,lab-2"]),
        ("os:linux he", ["os:linux health:"]),
        ("os:linux health:", ["os:linux health:online"]),
        ('name:"La', ['name:"Lab One"']),
        ("name:'Lab One' !na", ["name:'Lab One' !name:"]),
        ("name:zzz", []),
    ],
)
def test_the_last_term_is_completed(text: str, words: list[str]) -> None:
    assert offered(text) == words


@pytest.mark.parametrize("start", ["", "name:", "!name:", "os:linux name:", "name:x,"])
def test_every_name_that_is_offered_is_read_as_that_name(start: str) -> None:
    """Also one with signs of the language; a field is offered with its colon."""
    names = [text for text in offered(start) if not text.endswith(":")]
    assert len(names) == len(NAMES)
    for name, text in zip(NAMES, names, strict=True):
        device = Device(name=name, health=Health.ONLINE, since=ago(0), platform="linux")
        assert parse_filter(text).matches(device) is not start.startswith("!"), text
