"""What the tools of our own device client were defined as by earlier versions of this program, and are now.

A changed definition blocks its tool until an operator reviews it. A definition that this program itself knows
as the successor of the trusted one was reviewed with the program: an update of the device client blocks
nothing. That holds in one direction, and for no definition that is not listed here.
"""

from __future__ import annotations

_DEFINITIONS: dict[str, tuple[str, ...]] = {
    "get_ui_tree": (
        "7fe79d76c8e061f9e619cddf5775adbcf46ae451bbfb9f3b5ecbd9fc59181392",
        # Takes app_root_name.
        "c82d341a566efb8719b67675c81b5dce7d2271eaba641d7689f38e43a179d61b",
    ),
    "list_windows": (
        "628ee01a1eb9aa1c50c14c8089c70ab8af091642bb5f836b8953078581d6ff32",
        # Takes app_root_name.
        "cb5d76e3497eeb6983404e46974d2bd95b1f0d6411b3488475d3390fc05ad08d",
    ),
    "click_element": (
        "6323d28b5036901a30d73b0f8af0c5bb8ef042f40fdc7112b71fc52617ac3dc2",
        # Takes app_root_name.
        "3f8443aab8573a82f7a66c0565d1d821240e7b454c7a54a1949bcb0f9c1d631d",
    ),
    "close_application": (
        "d12391f72623054b170f5819967bb4fd8ce1fd37c619d1710e2d001bd5c74b34",
        # Takes app_root_name.
        "f7a4822ab722595a3112b47908c0b46d2f795fef283ebcd4cda111b54d45a875",
    ),
    "read_file": (
        "6d26b5bf2394e3617340652eb0ef14e1ad5c34e2ee2100a76984ef60d1a52a8f",
        # Takes every text encoding.
        "66001f592c4547add3a27bfac7368bf10f3c99c552d0148feb04ef3dd0a439cb",
    ),
    "write_file": (
        "92ab8f405784c430db6fe1a7352cea646c938b50b64f60d1f8b8b6bd5959f9bc",
        # Takes every text encoding.
        "1a80c9f9d93dd380b385b94bd941f9f54f53aac2c9112ff4367b93df6451fad5",
    ),
    "get_system_info": (
        "fd6f1478c16e973e6f025bf0cb66299ea96bb6c242d45b0bdd5bd2e304ed5507",
        # Tells disks and their controllers.
        "3cd619117bc2291072d7bb062674cf3f2d0ad7ab837f2aff4d788d22476793ea",
    ),
}
"""By tool, the digests of its pinned definitions (`core.contract_digest`), the oldest first."""


def is_update(tool_name: str, trusted: str, listed: str) -> bool:
    """Whether a built-in tool's definition `listed` came after the `trusted` one, both in this program."""
    known = _DEFINITIONS.get(tool_name, ())
    return trusted in known and listed in known[known.index(trusted) + 1 :]


def newest(tool_name: str) -> str | None:
    """The digest that a listed tool's definition has now; None for a tool that never had another one."""
    known = _DEFINITIONS.get(tool_name)
    return known[-1] if known else None
