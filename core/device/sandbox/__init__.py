"""The read-only shell's sandbox: three kernel mechanisms, and a first process that supervises the command.

1. bubblewrap: separate namespaces for users, processes, network and IPC; the whole file system bound
   read-only; no capabilities; folders with daemons' sockets, closed folders and private folders hidden.
2. seccomp: no sockets, so that no daemon can be asked to write; no mounts, namespaces or tracing; none of the
   calls that change a file's mode, owner, times or attributes; no use of kernel pools that the user's other
   programs need, except pipes and epoll watches, which are counted.
3. Landlock: reading and executing only. It denies writes to FIFOs and devices, which a read-only mount
   allows, and access to closed paths that are created while a command runs.

The first process (`sandbox_init`) counts the command's use of resources, and stops its output once a closed
path has been replaced. The closed paths are `closed_paths` and, without an operator's approval, private
places, under every name that mounts and symlinks give them when the command begins.
"""
