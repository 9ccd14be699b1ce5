"""Error codes inside AIP's plain error text."""

from __future__ import annotations

import pytest

from core.aip.frames import error_text, read_error_text
from core.errors import BadInput, ErrorCode


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_survives_the_way_through_a_text(code: ErrorCode) -> None:
    told = read_error_text(error_text(BadInput("a: b", code)))
    assert (told.code, told.message) == (code, "a: b")


@pytest.mark.parametrize("text", ["", "Input validation error: 'x' is required", "timeout", "gone: fishing"])
def test_a_stock_devices_text_is_kept_whole(text: str) -> None:
    told = read_error_text(text)
    assert (told.code, told.message) == (ErrorCode.TOOL_FAILED, text)
