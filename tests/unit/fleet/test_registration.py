"""What a device says of itself at its registration, read without trust in its shape."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.aip.device_link import DeviceLink
from core.commands.channel import BasicCommandDispatcher
from core.fleet.registration import arrival_of, own_process_arrival

CHANNEL = cast("BasicCommandDispatcher", SimpleNamespace())


def link(metadata: dict[str, Any]) -> DeviceLink:
    return cast(
        "DeviceLink",
        SimpleNamespace(
            name="d", metadata=metadata, features={"cancel"}, clock_offset_ms=0.0, peer="here", secure=True
        ),
    )


@pytest.mark.parametrize("odd", [None, 7, "text", [], {}, [{}], {"version": 7, "roots": 7}])
def test_metadata_of_any_shape_is_read(odd: Any) -> None:
    metadata = {"platform": odd, "system_info": odd, "quarterdeck": odd}
    own = own_process_arrival(link(metadata), CHANNEL, "Debian 12")
    assert (own.kind, own.own_computer, own.system) == ("process", True, "Debian 12")
    assert own.roots is None
    assert own.platform == ("text" if odd == "text" else "")
    remote = arrival_of(link(metadata), CHANNEL)
    assert (remote.kind, remote.roots) == ("websocket", None)


def test_roots_are_believed_only_of_the_process_that_this_service_started() -> None:
    metadata = {"quarterdeck": {"version": "1", "roots": ["/srv", 7]}}
    assert own_process_arrival(link(metadata), CHANNEL, "").roots == [Path("/srv")]
    assert arrival_of(link(metadata), CHANNEL).roots is None
