"""A pairing whose device dials this console at another host than the one where it listens."""

from __future__ import annotations

from dataclasses import replace

from core.aip.pairing import at_host, decode_pairing, encode_pairing
from core.fleet.models import Pairing


def check_host(url: str, host: str) -> None:
    """Check that a device can be told to dial `host` in place of the host of `url`, empty for none.

    Raises:
        BadInput: `host` is not the name or the number of a host.
    """
    at_host(url or "wss://console/", host)


def advertised(pairing: Pairing, host: str) -> Pairing:
    """The same pairing at another name or address of this console.

    Raises:
        BadInput: as from `check_host`.
    """
    url = at_host(pairing.url, host)
    line = replace(decode_pairing(pairing.string), url=url)
    return pairing.model_copy(
        update={"string": encode_pairing(line), "url": url, "stock_url": f"{url}?token={line.token}"}
    )
