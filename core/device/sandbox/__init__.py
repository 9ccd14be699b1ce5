"""What makes the read-only shell read-only: three walls of the kernel's, each with its own tests.

1. bubblewrap: namespaces of its own for users, processes, network and IPC; the whole file system bound
   read-only; no capabilities; folders full of daemons' sockets hidden.
2. seccomp: no sockets at all, so that no daemon can be asked to do the writing; no mounts, no namespaces, no
   tracing; none of the calls that change a file's mode, owner, times or attributes.
3. Landlock: reading and executing only. It is what keeps FIFOs and devices from being written to, which a
   read-only mount allows.
"""
