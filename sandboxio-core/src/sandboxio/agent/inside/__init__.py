"""The agent: the program inside a sandbox that starts commands and serves files; standard library only.

It is sent over stdin and never stored (`sandboxio.agent.bootstrap`): the modules of this package, as one program. It
runs on Python 3.8 and later, also without `ctypes`, `json` and `resource`, as the sandbox's first process or a further
one. It names C modules directly, because official images ship no byte code: `import signal` alone costs 100 ms there.

Protocol. Both directions carry frames ``length u32, channel u32, kind u8, payload`` (big-endian, payload ≤ 64 KiB). The
host numbers channels upwards from 1 and uses each once, for one command or one file operation.

Host → agent. START ``flags u8 (1 = stdin stays open), window u32, spec length u32, code length u64`` and the first bytes
of the *body* (spec, then code), whose rest and then stdin come as DATA; the spec is joined by NUL: cwd, user ("" = the
agent's own), number of arguments, arguments, then ``NAME=value`` each. EOF ends stdin or a written file. CREDIT u32
allows that much more output. KILL ends a command's tree. READ, WRITE (``mode u32 (all ones = default), modified f64 (NaN
= now), path``), LIST, STAT, MKDIR, REMOVE (``flag u8 (1 = parents, recursive), path``), READLINK, LINK (``target, NUL,
path``), SET (``mode u32, modified f64, path``) are file operations; READ and LIST start with ``window u32``. ABORT gives
one up. DETACH: from now on only the lifetime ends the agent, and a further one the end of its last command.

Agent → host. BOOT, first and once: names and values, joined by NUL. STARTED ``pid u32`` (0: it could not be executed),
or FAILED ``stage u8 (1 cwd, 2 user, 3 no process can be had, 4 supervisor lost), errno u32``. OUT and ERR: output, within
the credit, of which each uses up at least 256 bytes. END ``u8 (0 stdout, 1 stderr)``: no more of it. EXIT ``wait status u32, flags u8 (1 an OOM kill happened
meanwhile, 2 a fork was refused, 4 we killed it, 8 status unknown)`` comes as soon as the command itself ended; what it
had written still follows, then END. KILLED ``u8 (t = its whole tree ended, s = not certain: end the sandbox)``.
GRANT u32 allows that much more DATA (at first 256 KiB, for WRITE 1 MiB). GONE: nobody reads stdin. DONE ``errno u32,
payload`` ends a file operation. OUT of LIST and the payload of STAT are entries ``flags u8 (1 directory, 2 link), mode
u32, size u64, modified f64, name length u16, name``. DETACHED answers DETACH.

If it was asked to watch the disk, the first agent says on its stderr whether a process lives in the sandbox and what
deleted files hold (`disk.Watch`).

Each command has a *supervisor*: a process forked beforehand, waiting, that is the reaper of all that descends from the
command, starts it, reports its end, and on KILL stops and kills descendants until none is left, without a fork. When
nothing descends from the command any more it waits for another one; descriptors are passed to it over a socket.
What user code of the same user can do to agent and supervisors is send signals (ignored but SIGKILL and SIGSTOP, and as
first process those too): their memory and descriptors are closed to it. A killed or stopped supervisor is replaced by
the agent itself, where it can tell what belonged to the command; where it can't, KILLED says ``s``. A command of another
user can't even send them signals; for it to be startable and endable the agent needs SETUID, SETGID and KILL.
"""
