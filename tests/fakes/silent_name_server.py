"""Runs a program where the only name server takes questions and never answers.

    unshare -rmn python -m tests.fakes.silent_name_server FOLDER PROGRAM ARGUMENT…

In a mount and network namespace of its own, `/etc/resolv.conf` names a UDP socket of this process. When the
program has ended, the number of questions is written to `FOLDER/questions`.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16xh14x", fcntl.ioctl(any_socket, _GET_FLAGS, request))[0]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def main(folder: Path, words: list[str]) -> int:
    _loopback_up()
    resolv = folder / "resolv.conf"
    resolv.write_text("nameserver 127.0.0.1\n")
    subprocess.run(["mount", "--bind", str(resolv), "/etc/resolv.conf"], check=True)
    questions: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 53))

        def take() -> None:
            while True:
                questions.append(server.recv(4096))

        threading.Thread(target=take, daemon=True).start()
        code = subprocess.run(words, check=False).returncode
        (folder / "questions").write_text(str(len(questions)))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
