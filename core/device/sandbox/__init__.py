"""What makes the read-only shell read-only: three walls of the kernel's, and a first process that watches.

1. bubblewrap: namespaces of its own for users, processes, network and IPC; the whole file system bound
   read-only; no capabilities; folders full of daemons' sockets, and closed and private ones, hidden.
2. seccomp: no sockets at all, so that no daemon can be asked to do the writing; no mounts, no namespaces, no
   tracing; none of the calls that change a file's mode, owner, times or attributes; nothing that takes from a
   pool which the user's other programs need, but pipes and watches of epolls, which are counted.
3. Landlock: reading and executing only. It is what keeps FIFOs and devices from being written to, which a
   read-only mount allows, and what keeps closed paths closed that come to be while a command runs.

The first process (`sandbox_init`) counts what the command takes, and lets nothing of its output out once a
closed path became another one. Closed are `closed_paths` and, without an operator's approval, private places,
under every name that mounts and symlinks give them when the command begins.
"""
