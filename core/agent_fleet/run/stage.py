"""A terminal of the agent's own, joined to the window that its keeper was started in and to the log.

The agent reads and writes a pseudo-terminal. What it prints goes to the log as it comes and to the window as fast as that
takes it; what is typed in the window goes to the agent. A window that is slow, stopped or gone never holds anybody up: the log
is whole, and the window leaves out what it could not take.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import termios
import threading
import time
from typing import Any

_PIECE = 1 << 16
_SHOWN = 1 << 18  # bytes that may wait for the window
_TYPED = 1 << 16  # bytes that may wait for the agent
_AGAIN = 1.0  # seconds until a full disk is tried again
_LAST = 2.0  # seconds that the last output gets to arrive, should somebody else hold the terminal open
_FAREWELL = 1.0  # seconds that the window gets to take the last output
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6  # places in what tcgetattr(3) gives in Python


class Stage:
    """The agent's terminal; `agent` is the descriptor that it is to get. Raises OSError if none can be made.

    Closing the window leaves the reason in the worker's directory, and asks this process to end as anybody else would: by SIGTERM.
    """

    def __init__(self, window: int, log: int, worker_dir: str) -> None:
        if window < 0:
            raise OSError(errno.ENXIO, "it was to run in a window, and there is none")
        self._window = window
        self._log = log
        self._dir = worker_dir
        self._fleet, self.agent = os.openpty()
        for descriptor in (self._fleet, self.agent):
            os.set_inheritable(descriptor, False)
        os.set_blocking(self._fleet, False)
        self._kept = termios.tcgetattr(window)
        self._plain_lines()
        self._is_open = True
        self._shown = bytearray()
        self._typed = bytearray()
        self._unlogged = b""
        self._missed = 0
        self._waking, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._relay, name="stage", daemon=True)
        self.resize()

    def begin(self) -> None:
        """Join the terminals; from now on what the agent prints is taken."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        signal.signal(signal.SIGWINCH, lambda *_: self.resize())
        signal.signal(signal.SIGHUP, lambda *_: self._lose())  # some windows ask first, and stay until we have ended
        try:
            termios.tcsetattr(self._window, termios.TCSANOW, _raw(self._kept))
        except termios.error:
            pass  # it was closed already, which the relay finds out
        self._thread.start()

    def resize(self) -> None:
        """Give the agent's terminal the size of the window."""
        try:
            size = fcntl.ioctl(self._window, termios.TIOCGWINSZ, bytes(8))
            if size[:4] != bytes(4):  # a window that does not know its size says 0
                fcntl.ioctl(self._fleet, termios.TIOCSWINSZ, size)
        except OSError:
            pass

    def close(self) -> None:
        """Take what is left of the output once nothing of the agent lives, and give the window back as it was."""
        os.close(self.agent)
        if self._thread.is_alive():
            os.write(self._wake, b".")
            self._thread.join()
            self._drain()
            self._say_farewell()
        signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            termios.tcsetattr(self._window, termios.TCSANOW, self._kept)
        except termios.error:
            pass
        for descriptor in (self._fleet, self._window, self._waking, self._wake):
            os.close(descriptor)

    # ------------------------------------------------------------------------------------------------------- joining

    def _plain_lines(self) -> None:
        """Have lines end in the log as they were printed; the carriage return is added for the window alone."""
        mode = termios.tcgetattr(self.agent)
        mode[_OFLAG] &= ~termios.ONLCR
        termios.tcsetattr(self.agent, termios.TCSANOW, mode)

    def _relay(self) -> None:
        while True:
            reading = [self._waking] + ([] if self._unlogged else [self._fleet])
            writing = [self._fleet] if self._typed else []
            if self._is_open:
                reading += [self._window] if len(self._typed) < _TYPED else []
                writing += [self._window] if self._shown else []
            ready, free, _ = select.select(reading, writing, [], _AGAIN if self._unlogged else None)
            if self._waking in ready:
                return
            if self._unlogged:
                self._keep(b"")
            if self._fleet in ready:
                self._take()
            if self._window in ready:
                self._hear()
            if self._fleet in free and not _put(self._fleet, self._typed):
                self._typed.clear()
            if self._window in free:
                self._show()

    def _take(self) -> bytes | None:
        """Take one piece of output: None if there is none now, empty if there will be none."""
        try:
            data = os.read(self._fleet, _PIECE)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # EIO: nobody is left who could print
        self._keep(data)
        self._offer(data)
        return data

    def _keep(self, data: bytes) -> None:
        """Write to the log. While the disk is full nothing more is taken, so that the agent waits and nothing is lost."""
        rest = memoryview(self._unlogged + data)
        try:
            while rest:
                rest = rest[os.write(self._log, rest) :]
        except OSError:
            pass
        self._unlogged = bytes(rest)

    def _offer(self, data: bytes) -> None:
        if not self._is_open:
            return
        if len(self._shown) + len(data) > _SHOWN:
            self._missed += len(data)
            return
        if self._missed:
            self._shown += b"\r\n[%d bytes are only in the log]\r\n" % self._missed
            self._missed = 0
        self._shown += data.replace(b"\n", b"\r\n") if self._wants_returns() else data

    def _wants_returns(self) -> bool:
        """Whether the agent left its terminal as we made it; one that draws for itself sets it otherwise."""
        try:
            flags = termios.tcgetattr(self._fleet)[_OFLAG]
        except termios.error:
            return True
        return bool(flags & termios.OPOST) and not flags & termios.ONLCR

    def _show(self) -> None:
        if not _put(self._window, self._shown):
            self._lose()

    def _hear(self) -> None:
        try:
            data = os.read(self._window, _PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._typed += data
        else:
            self._lose()

    def _lose(self) -> None:
        """The window is gone: the worker ends with it."""
        self._is_open = False
        self._shown.clear()
        self._say_why()
        os.kill(os.getpid(), signal.SIGTERM)

    def _say_why(self) -> None:
        """Leave the reason, whole at once: a signal and the end of the input may tell of the same closing."""
        reason = os.path.join(self._dir, "stop")
        draft = f"{reason}.{threading.get_ident()}"
        try:
            with open(draft, "w", encoding="utf-8") as file:
                file.write("its window was closed\n")
            os.link(draft, reason)
        except OSError:
            pass  # another reason is there, or the disk is full: the request counts
        with contextlib.suppress(OSError):
            os.unlink(draft)

    # -------------------------------------------------------------------------------------------------------- ending

    def _drain(self) -> None:
        end = time.monotonic() + _LAST
        while time.monotonic() < end:
            data = self._take()
            if data == b"":
                return
            if data is None:
                select.select([self._fleet], [], [], 0.05)

    def _say_farewell(self) -> None:
        end = time.monotonic() + _FAREWELL
        while self._is_open and self._shown and (left := end - time.monotonic()) > 0:
            if select.select([], [self._window], [], left)[1]:
                self._is_open = _put(self._window, self._shown)


def _put(descriptor: int, data: bytearray) -> bool:
    """Write what can be written now, and take it out of `data`; False if nobody can read it any more."""
    try:
        del data[: os.write(descriptor, data[:_PIECE])]
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def _raw(mode: list[Any]) -> list[Any]:
    """The mode of a terminal that passes every byte on as it is, both ways (cfmakeraw(3))."""
    raw = [*mode[:_CC], list(mode[_CC])]
    raw[_IFLAG] &= ~(
        termios.IGNBRK
        | termios.BRKINT
        | termios.PARMRK
        | termios.ISTRIP
        | termios.INLCR
        | termios.IGNCR
        | termios.ICRNL
        | termios.IXON
    )
    raw[_OFLAG] &= ~termios.OPOST
    raw[_CFLAG] = raw[_CFLAG] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    raw[_LFLAG] &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    raw[_CC][termios.VMIN], raw[_CC][termios.VTIME] = 1, 0
    return raw
