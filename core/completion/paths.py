"""The files and folders that begin as a typed path."""

from __future__ import annotations

import os
from collections.abc import Iterator

from core.completion.words import Offer

_MOST = 2_000


def path_offers(typed: str, endings: tuple[str, ...] = (), folders_only: bool = False) -> Iterator[Offer]:
    """Entries of the folder of `typed`; of files, those with one of these endings if there are any.

    Hidden entries are offered once their dot is typed. A path that cannot be read has none.
    """
    head, _, name = typed.rpartition("/")
    folder = f"{head}/" if "/" in typed else ""
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = sorted(
                (entry.name, _is_folder(entry)) for entry, _ in zip(entries, range(_MOST), strict=False)
            )
    except OSError:
        return
    for entry, is_folder in found:
        if not entry.startswith(name) or (entry.startswith(".") and not name):
            continue
        if is_folder:
            yield Offer(f"{folder}{entry}/", is_open=True, is_path=True)
        elif not folders_only and (not endings or entry.endswith(endings)):
            yield Offer(f"{folder}{entry}", is_path=True)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
