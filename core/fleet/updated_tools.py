"""Known definitions of our own device client's tools: those of earlier versions and the present ones.

A changed definition blocks its tool until an operator reviews it. This program's own updates need no review:
a definition that is listed here after the trusted one is accepted, so that an update of the device client
blocks nothing. An older definition, or one that is not listed, is not accepted.
"""

from __future__ import annotations

DEFINITIONS: dict[str, tuple[str, ...]] = {
    "get_ui_tree": (
        "7fe79d76c8e061f9e619cddf5775adbcf46ae451bbfb9f3b5ecbd9fc59181392",
        # Takes app_root_name.
        "c82d341a566efb8719b67675c81b5dce7d2271eaba641d7689f38e43a179d61b",
        # Searches, and leaves out what is not showing.
        "49f53753dec819c2a53ff33da164570b3f3f1ea712680a4554d5d2975b85bb09",
    ),
    "list_windows": (
        "628ee01a1eb9aa1c50c14c8089c70ab8af091642bb5f836b8953078581d6ff32",
        # Takes app_root_name.
        "cb5d76e3497eeb6983404e46974d2bd95b1f0d6411b3488475d3390fc05ad08d",
        # Says minimized and workspace.
        "d8d968750ee5d5993c401659899f0d817e6a21fbe408ce3418d853587145252f",
    ),
    "click_element": (
        "6323d28b5036901a30d73b0f8af0c5bb8ef042f40fdc7112b71fc52617ac3dc2",
        # Takes app_root_name.
        "3f8443aab8573a82f7a66c0565d1d821240e7b454c7a54a1949bcb0f9c1d631d",
        # Takes window_id, and says window, control and what was seen.
        "faed7b2481d64f88da0e8245d77f99def4c4a978bd5cd9266765343a2ef6568c",
    ),
    "close_application": (
        "d12391f72623054b170f5819967bb4fd8ce1fd37c619d1710e2d001bd5c74b34",
        # Takes app_root_name.
        "f7a4822ab722595a3112b47908c0b46d2f795fef283ebcd4cda111b54d45a875",
        # Closes one program, and takes a name together with a process id.
        "dfa219ad441903ab328adf4a485e631c49795e4050d29c2c6628d43fe461fb55",
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
        # Says where the file has other names.
        "02c8c697965e2007a606955f90cf52e45d3f3d5a219e48a3dc39948394673258",
    ),
    "get_system_info": (
        "fd6f1478c16e973e6f025bf0cb66299ea96bb6c242d45b0bdd5bd2e304ed5507",
        # Reports disks and their controllers.
        "3cd619117bc2291072d7bb062674cf3f2d0ad7ab837f2aff4d788d22476793ea",
        # Swap and load may be null.
        "18e7014beb106f2788063eac00aaa8ae17b63658448c9a80c3e3dc9534768b87",
    ),
    "get_accessibility_tree": (
        "180a522a275a908900680a6c9056d6d6d9d00dffcc9c631d663566bbcf01f87c",
        # Searches, and leaves out what is not showing.
        "423c1edf7798945687ec146e354feef4918fb93521424073dad4da4152b681a8",
    ),
    "wait_for_element": ("b1d5fc62383392f099d14065efdc02798d10335bc80652c6e087a0b6ad6d45b4",),
    "click_point": (
        "642dbab4155f0efa5880f3952df5487f976af4af67c859fbcb03089d295886a9",
        # Says the window.
        "aa36bf50b0fa5f503bbeb56f97abfef9334837622ef42f1a95aa05814321b1d8",
    ),
    "type_text": (
        "712a1efc6b9f0706d75e35f742e6b2477327f20392afee51a68b0a299bc81a28",
        # Takes window_id and process_name, and says what stands there.
        "f61ccce05b907591eb0994c4fba56f30e4ba44734af0976e6bc05d2acb0a66cb",
    ),
    "press_key": (
        "c603112ecfeedcdeadf67b719efe6d3260ed67db8edd35dfc8bbf6774fd8e28f",
        # Takes window_id and process_name, and says window and control.
        "b556899bce86197f4629505857888eb9957bb8e91381b19956685a90bd318932",
    ),
    "scroll": (
        "6bdf80ff41ac38b7fdf4370ee6a9ebd6e2a0837ad4c15cc53487aa3d1da36f51",
        # Takes window_id and process_name, and says window and control.
        "7a4ac57430e6b15ce091dbd0293749d1c3a8ff18fc5b19e81e3055228118783c",
    ),
    "activate_window": ("965324fc471c0b3a4d775bd41f570c9fe46d75d837bc4f1f5ac602689d6244fc",),
    "list_tools": ("a3dd1e0913878fc6d1845a0cfb469ee685ec729161258d404c5bb296ce444607",),
    "get_mcp_tools": ("7f0c62d2bb8a6e794218727094960491ce85ae53d685c24dbd9aff33893abbfa",),
    "launch_application": ("50e05c3b2337cf4ba9d14bae9fcc4627e7d4df5f18d03e0aa3473dfac0647990",),
    "list_directory": ("3e86b96ded47250f086c286d720afb3264492eb37de49264fb8a6763c0cb3394",),
    "restore_file": (
        "857a4b71a1bda1ead0c10bc48cec4bdf436c1df5c148a88cccffdf69a1b3784e",
        # Says where the file has other names.
        "917078432752e548def6b32ac1233b229b8e40cba6ccf4310ca0096e9c052b09",
    ),
    "list_processes": (
        "4d9a5d0a4e5a831586ffea1210c4db5d3e0904f141e2db234183724c665b4407",
        # Lists the programs that close_application can mean, and the windows of each.
        "3e3e32f650057a3977b7cd06ba3f3451429d8fb08b259d355897d382c4db3250",
    ),
    "shell_execute_read": ("2c61ce544e834860d1e89f68f5342f8c76c63e1e64dd3af79ac7d5463972d536",),
    "screenshot": (
        "11dc76a35f81949dc9b4b5dbeed905683e7f98451a80d1491b53d9e0f8a56d09",
        # Says of windows whether they are minimized, and their workspace.
        "f60347972154c24e506c6ed8f2cfeedf33edccb2db159efae886fb51aa8a4407",
    ),
    "EXEC_CLI": (
        "4a88522213db57ab707c527215297f2aa45252cbdf15c7a8b2eec6767b86f963",
        # Takes env.
        "bdfe41211819fd7fb1b69f1306c0ce3cd75a733c68659b9572c737360664d6f2",
    ),
    "shell_execute": (
        "9728ba5d5936d8ea30cfffb47d6c5eed4bad5bad0733f1fc6da2b9fa56a8a6a9",
        # Takes env.
        "e18de499f42b0d498c13def8edad61611b2d8cb260c730291fffc36e3c502760",
    ),
    "SYS_INFO": ("081fb2323833fb787f7795dce790976102bdb905aeaf4707a1780c6c0885e823",),
    "undo": (
        "87294ab1d4756a708e4365d92e3292faa795efbb2854553988f26ce3593c24cc",
        # Undoes changes of the hosted servers, too.
        "7baf6078c388832dde060f64bca1678e61a6a790f9d993d5e493d26e46df76dd",
    ),
    "list_mcp_servers": ("5b3a5d4197140b6757e8c43c6d63c56dfccf2f049ae4a25fe902fe05d2d04f48",),
    "restart_mcp_server": ("098f1153d2f5d68528009390434241b2cbc0b75909ddcc149cb9f5145f2dfe29",),
    "try_mcp_server": ("7f8b7868f28eaaef819d061e0c88a30c0d5ff7af44f608e7ee58f4e82289b613",),
    "add_mcp_server": ("dbad28a072c30abfa6e2edff328a57a31ac3e868ff78fc78ad10af446cc70c2f",),
    "switch_mcp_server": ("5ab1234590f0e148166ece9d1b00750c4312c06f547560fdf03684880c5d849f",),
    "remove_mcp_server": ("c30b4abe43b1dd3b7a16dba247b3ecb322cf7364478158c6d897de8bd00b1d7c",),
}
"""By tool, the digests of its pinned definitions (`core.aip.contract_digest`), oldest first."""


def is_update(tool_name: str, trusted: str, listed: str) -> bool:
    """Whether this program lists the definition `listed` after the definition `trusted` of this tool."""
    known = DEFINITIONS.get(tool_name, ())
    return trusted in known and listed in known[known.index(trusted) + 1 :]
