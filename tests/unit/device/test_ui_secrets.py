"""A secret that is typed: the console masks it because its neighbour says so."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from core.device.config import DeviceConfig
from core.device.desktop.interface import NoDesktop
from core.device.desktop.ui_tools import UiTools
from core.device.guard import Guard
from core.device.observations import ObservationStore
from core.device.tools.ui import _tools
from core.errors import BadInput
from core.schema_forms.messages import describe
from tests.fakes.arguments import masked

TOOLS = _tools(UiTools(NoDesktop("test"), ObservationStore()))
SCHEMA: dict[str, Any] = next(tool.input_schema for tool, _ in TOOLS if tool.name == "type_text")


@pytest.mark.parametrize("told", [True, "yes", 1, 0, "{{ steps.a.secret }}", []])
def test_a_text_is_masked_when_its_neighbour_calls_it_secret(told: object) -> None:
    shown = masked({"text": "hunter2", "secret": told, "control_id": "c"}, SCHEMA)
    assert shown["text"].keys() == {"$secret"}
    assert shown["control_id"] == "c"
    assert "hunter2" not in repr(shown)


@pytest.mark.parametrize("more", [{}, {"secret": False}, {"secret": None}])
def test_an_ordinary_text_stays_readable(more: dict[str, Any]) -> None:
    assert masked({"text": "hello", **more}, SCHEMA) == {"text": "hello", **more}


def test_no_refusal_repeats_a_secret_that_came_in_the_wrong_shape() -> None:
    wrong = {"text": ["hunter2"], "secret": True}
    typing = next(tool for tool, _ in TOOLS if tool.name == "type_text")
    with pytest.raises(BadInput) as caught:
        Guard(DeviceConfig()).check(typing, wrong)
    assert "hunter2" not in caught.value.message
    for fault in Draft202012Validator(SCHEMA).iter_errors({**wrong, "text": 4711}):
        assert "4711" not in describe(fault)[1]
