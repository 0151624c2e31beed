"""Running programs on a core, and what they use. Linux only; needs nothing but Python 3.9."""

import os
import signal
import socket
import subprocess
import tempfile
import time


class Failed(Exception):
    """A run that gives no result; its text says why."""


def pinned(core):
    """For `preexec_fn`: the program, and all that it starts, keeps to the core. It leads a process
    group, so that all can be killed, but no session: the kernel may share out cores by session."""
    def prepare():
        os.sched_setaffinity(0, {core})
        os.setpgid(0, 0)
    return prepare


class Ran:
    """A program that has ended: what it printed, its CPU time and how long it took, in seconds."""

    def __init__(self, stdout, cpu_s, wall_s):
        self.stdout = stdout
        self.cpu_s = cpu_s
        self.wall_s = wall_s


def run(argv, core, limit_s, env=None, codes=(0,)):
    """Runs a program to its end. Its CPU time is that of all its threads, and of its processes as
    far as it waited for them (`wait4`)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                 env={**os.environ, **(env or {})}, preexec_fn=pinned(core))
        status, usage = wait(child, start + limit_s)
        wall = time.monotonic() - start
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if status is None:
        raise Failed(f"no end in {limit_s} s")
    code = os.waitstatus_to_exitcode(status)
    if code not in codes:
        last = (texts[1].strip() or texts[0].strip()).splitlines()[-1:]
        raise Failed(f"exit code {code}: {' '.join(last)[:200]}")
    return Ran(texts[0], usage.ru_utime + usage.ru_stime, wall)


def wait(child, deadline):
    """Status and rusage of a child; None as status when its time was up and it was killed."""
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return status, usage
        if time.monotonic() > deadline:
            os.killpg(child.pid, signal.SIGKILL)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            return None, usage
        time.sleep(0.01)


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A running server on a core. `argv` has the port in it, or, with `port` None, the server says
    `listening on http://ADDRESS` on its first line."""

    def __init__(self, argv, core, port=None):
        self.out = tempfile.TemporaryFile("w+b")
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=self.out,
                                      stderr=subprocess.STDOUT, preexec_fn=pinned(core))
        self.address = f"127.0.0.1:{port}" if port else None
        deadline = time.monotonic() + 60
        while not self.listens():
            if self.child.poll() is not None or time.monotonic() > deadline:
                said = self.text().strip()[-300:]
                self.stop()
                raise Failed(f"{argv[0]} does not listen: {said}")
            time.sleep(0.02)

    def listens(self):
        if self.address is None:
            line = self.text().split("\n")[0]
            if "listening on http://" in line and "\n" in self.text():
                self.address = line.split("http://")[1].strip()
            return self.address is not None
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port)), 1).close()
            return True
        except OSError:
            return False

    def text(self):
        self.out.flush()
        return os.pread(self.out.fileno(), 1 << 16, 0).decode(errors="replace")

    def cpu_s(self):
        """CPU time so far of the server and of its workers."""
        return sum(cpu_of(pid) for pid in tree(self.child.pid))

    def stop(self):
        """Ends it. Returns what it printed."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        said = self.text()
        self.child.stdin.close()
        self.out.close()
        return said


def tree(pid):
    """A process and the processes that its threads started."""
    pids = [pid]
    for thread in tasks(pid):
        for child in read(f"/proc/{pid}/task/{thread}/children").split():
            pids += tree(int(child))
    return pids


def cpu_of(pid):
    """Seconds of CPU of all threads of a process, ended ones too: its clock as
    `clock_getcpuclockid` names it."""
    try:
        return time.clock_gettime(~pid << 3 | 2)
    except OSError:
        return 0.0


def tasks(pid):
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
