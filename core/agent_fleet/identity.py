"""Who a process is, so that a number the kernel has given to another is never taken for it.

An identity is the text `pid:start:boot:ns:machine`. On Linux `start` is field 22 of proc_pid_stat(5), clock ticks since
boot, `boot` the kernel's random boot id, and `ns` the inode of the pid namespace; on macOS they are the start time in
microseconds, the boot session's id, and 0. `machine` is a digest of the machine id and, because machines are cloned
with their ids, of the host name. A hot-path module: nothing heavy is imported here.
"""

from __future__ import annotations

import binascii
import os
import sys
from typing import NamedTuple

from agent_fleet.errors import FleetError

LINUX = sys.platform.startswith("linux")

# What stands between an agent and the `fleet` that it typed, by the name it was run under.
SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "busybox"))
RUNNERS = frozenset(("env", "timeout", "setsid", "nohup", "sudo", "stdbuf", "nice", "ionice", "time", "xargs"))
WRAPPERS = SHELLS | RUNNERS | frozenset(("uv", "uvx", "fleet", "agent-fleet"))
INITS = frozenset(("init", "systemd", "launchd", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit"))


class Stat(NamedTuple):
    """One line of `/proc/<pid>/stat`; times are clock ticks, `rss` is in pages, `comm` has at most 15 bytes."""

    pid: int
    comm: str
    state: str
    ppid: int
    cpu: int
    threads: int
    start: int
    rss: int

    @property
    def gone(self) -> bool:
        """Ended and only not yet reaped. A main thread may end before its process: then threads are left."""
        return self.state in "ZXx" and self.threads <= 1


def parse_stat(line: bytes) -> Stat:
    """Read one `/proc/<pid>/stat`; the name is whatever the process calls itself, blanks and parentheses included.

    `cpu` sums user and system time of the process and of the children it has waited for. Raises ValueError.
    """
    head, separator, tail = line.rpartition(b")")
    pid, opening, comm = head.partition(b"(")
    fields = tail.split()
    if not separator or not opening or len(fields) < 22:
        raise ValueError("not a line of /proc/<pid>/stat")
    return Stat(
        pid=int(pid),
        comm=comm.decode("utf-8", "replace"),
        state=fields[0].decode("ascii", "replace"),
        ppid=int(fields[1]),
        cpu=sum(int(field) for field in fields[11:15]),
        threads=int(fields[17]),
        start=int(fields[19]),
        rss=int(fields[21]),
    )


def read_stat(pid: int) -> Stat | None:
    """What `/proc` says about a process; None if it is not there or may not be seen."""
    try:
        return parse_stat(_read(f"/proc/{pid}/stat"))
    except (OSError, ValueError):
        return None


def identity_of(pid: int | None = None) -> str:
    """The identity of a process, by default this one.

    Raises FleetError: `not_found` if there is no such process, `unavailable` if this system does not say who it is.
    """
    pid = os.getpid() if pid is None else pid
    boot, ns, machine = _here()
    start = start_of(pid)
    if start is None:
        raise FleetError("not_found", f"there is no process {pid}", hint="look for it with `ps`; it may have ended")
    return f"{pid}:{start}:{boot}:{ns}:{machine}"


def is_alive(identity: str) -> bool | None:
    """Whether the process of an identity still runs; None if that cannot be told from here.

    False: it has ended (a zombie has), its number belongs to another process, or this machine was booted again since.
    None: another machine or pid namespace, a process that may not be seen, or a text that is no identity.
    """
    parts = identity.split(":")
    if len(parts) != 5 or not (parts[0].isascii() and parts[0].isdigit() and 0 < int(parts[0]) < 2**31):
        return None
    pid, start, boot, ns, machine = int(parts[0]), *parts[1:]
    try:
        here = _here()
    except FleetError:
        return None
    if boot != here[0]:
        return False if machine == here[2] and machine else None
    if ns != here[1]:
        return None
    return _runs(pid, start)


def name_of(pid: int) -> str:
    """The base name of the program that a process runs, or the name it calls itself; empty if neither can be read."""
    if LINUX:
        try:
            return os.path.basename(os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)"))
        except OSError:
            return _comm(pid)
    return _comm(pid)


def ancestor_owner(pid: int) -> int:
    """The process for which `pid` acts: its nearest ancestor that is no shell and no wrapper.

    A tool's shell ends with the one command it was started for; the agent above it is who holds a task. Where there
    are only wrappers up to init, the outermost of them is taken, since it lives longest.
    """
    outermost = above = _parent(pid) or 0
    seen = {pid}
    while above > 0 and above not in seen:
        seen.add(above)
        name = _comm(above)
        if above == 1 and name in INITS:
            break
        if not _is_wrapper(above, name):
            return above
        outermost, above = above, _parent(above) or 0
    return outermost


def boot_id() -> str:
    """What tells this boot of this machine from every other: 12 digits of a random id.

    Raises OSError (Linux) or FleetError `unavailable` (macOS) where the system does not say.
    """
    if LINUX:
        text = _read("/proc/sys/kernel/random/boot_id").decode("ascii", "replace").strip()
    else:
        text = _sysctl(b"kern.bootsessionuuid")
    return text.replace("-", "")[:12]


def start_of(pid: int) -> str | None:
    """When a process started, in the system's own unit, as the text that stands in its identity; None if unknown."""
    if LINUX:
        stat = read_stat(pid)
        return None if stat is None else str(stat.start)
    import psutil

    try:
        return str(int(psutil.Process(pid).create_time() * 1_000_000))
    except (psutil.Error, ValueError):
        return None


def _runs(pid: int, start: str) -> bool | None:
    if LINUX:
        stat = read_stat(pid)
        if stat is not None:
            return str(stat.start) == start and not stat.gone
    elif (found := start_of(pid)) is not None:
        return found == start and not _is_zombie(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return None  # it is there, but what it is was hidden from us (hidepid), or it came this very moment


def _is_zombie(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.ZombieProcess:
        return True
    except psutil.Error:
        return False


def _parent(pid: int) -> int | None:
    if LINUX:
        stat = read_stat(pid)
        return None if stat is None else stat.ppid
    import psutil

    try:
        return int(psutil.Process(pid).ppid())
    except (psutil.Error, ValueError):
        return None


def _comm(pid: int) -> str:
    if LINUX:
        stat = read_stat(pid)
        return "" if stat is None else stat.comm
    import psutil

    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, ValueError):
        return ""


def _is_wrapper(pid: int, name: str) -> bool:
    if name.lower().startswith("python"):
        return _runs_fleet(_arguments(pid))
    return name.lstrip("-") in WRAPPERS


def _runs_fleet(arguments: list[str]) -> bool:
    for index, argument in enumerate(arguments[1:], start=1):
        if argument == "-m":
            return arguments[index + 1 : index + 2] == ["agent_fleet"]
        if not argument.startswith("-"):
            return os.path.basename(argument) in ("fleet", "agent-fleet")
    return False


def _arguments(pid: int) -> list[str]:
    if LINUX:
        try:
            return os.fsdecode(_read(f"/proc/{pid}/cmdline")).split("\0")[:-1]
        except OSError:
            return []
    import psutil

    try:
        return list(psutil.Process(pid).cmdline())
    except (psutil.Error, ValueError):
        return []


def _here() -> tuple[str, str, str]:
    """Boot, pid namespace and machine of this process."""
    if LINUX:
        try:
            if os.readlink("/proc/self") != str(os.getpid()):
                raise FleetError(
                    "unavailable",
                    "/proc shows the processes of another pid namespace",
                    hint="mount a /proc that belongs to this namespace",
                )
            return boot_id(), str(os.stat("/proc/self/ns/pid").st_ino), _machine()
        except OSError as error:
            raise FleetError(
                "unavailable",
                f"this system does not say which process is which: {error.strerror} ({error.filename})",
                hint="mount /proc",
            ) from None
    return boot_id(), "0", _machine()


def _machine() -> str:
    if LINUX:
        try:
            known = _read("/etc/machine-id")
        except OSError:
            known = b""
        # A machine id is confidential by machine-id(5): what leaves this function is 32 bits of it, which tell nobody the rest
        return _digest(known.strip() + b"\0" + os.fsencode(os.uname().nodename))
    # A Mac's host name follows the network it is in; its hardware id does not.
    return _digest(_host_uuid())


def _digest(machine: bytes) -> str:
    """A short word for a machine. A cryptographic digest would cost every claim the loading of a library."""
    return f"{binascii.crc32(b'agent-fleet' + machine):08x}"


def _sysctl(name: bytes) -> str:
    import ctypes

    buffer = ctypes.create_string_buffer(128)
    size = ctypes.c_size_t(len(buffer))
    if ctypes.CDLL(None).sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0)) != 0:
        raise FleetError(
            "unavailable", f"this system does not tell {name.decode()}", hint="use a supported macOS or Linux"
        )
    return buffer.value.decode("ascii", "replace")


def _host_uuid() -> bytes:
    import ctypes

    class Timespec(ctypes.Structure):
        _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    buffer = ctypes.create_string_buffer(16)
    if ctypes.CDLL(None).gethostuuid(buffer, ctypes.byref(Timespec(1, 0))) != 0:
        return os.fsencode(os.uname().nodename)
    return buffer.raw


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()
