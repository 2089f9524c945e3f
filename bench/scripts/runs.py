"""Parts that the comparing scripts share: servers, runs of kvbench, results. Standard library alone."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    """A fault, described for people; the script ends with it."""


# --- CPUs -------------------------------------------------------------------------------------------------

CPUS = sorted(os.sched_getaffinity(0))
# Where client and server run. On few CPUs, those that a message wakes up in turns may be faster together.
PLACEMENTS = {"two cores": ([CPUS[0]], CPUS[1:2])} if len(CPUS) > 1 else {}
PLACEMENTS |= {"free": (CPUS, CPUS), "one core": ([CPUS[0]], [CPUS[0]])}

# Surroundings of a run, for --beside: the placements to choose among, and where busy processes run meanwhile (one for
# each entry).
SURROUNDINGS = {
    "nothing": (["two cores", "one core"] if len(CPUS) > 1 else ["free"], []),
    "one_core": (["one core"], []),
    "neighbour": (["free"], [CPUS]),
    "busy_cores": (["free"], [[cpu] for cpu in CPUS])}


def add_beside(parser):
    parser.add_argument("--beside", default="nothing", choices=list(SURROUNDINGS),
                        help="client and server have idle cores (nothing), one core for both (one_core), a busy "
                             "process beside them (neighbour), or a busy loop on each core (busy_cores); default: "
                             "%(default)s")
    parser.add_argument("--nice", type=int, default=0, help="of Remora's servers, as for kvserver; default: %(default)s")


class BusyProcesses:
    """The busy processes of a surrounding; they end with the `with`."""

    def __init__(self, beside):
        self.places, self.processes = SURROUNDINGS[beside][1], []

    def __enter__(self):
        for cpus in self.places:
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL)
            self.processes.append(process)
            os.sched_setaffinity(process.pid, cpus)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


# --- Servers ----------------------------------------------------------------------------------------------


class Server:
    """A process of ours, from its readiness to stop()."""

    def __init__(self, command, log, ready):
        """ready: "fd", it writes a line to the descriptor that --ready_fd names; or a Unix socket's path or a
        TCP port, which can be connected to then."""
        self.command, self.log = command, log
        read_end, write_end = os.pipe()
        with open(log, "wb") as out:
            flags = [f"--ready_fd={write_end}"] if ready == "fd" else []
            try:
                self.process = subprocess.Popen(command + flags, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                                pass_fds=[write_end] if ready == "fd" else [])
            except OSError as error:
                raise Failure(f"cannot start {command[0]}: {error.strerror}") from error
        os.close(write_end)
        with os.fdopen(read_end) as readiness:
            while not (readiness.readline() if ready == "fd" else connects(ready)):
                if self.process.poll() is not None:
                    raise Failure(f"{command[0]} did not start: {pathlib.Path(log).read_text().strip()}")

    @property
    def pid(self):
        return self.process.pid

    def place(self, cpus):
        for task in os.listdir(f"/proc/{self.pid}/task"):
            os.sched_setaffinity(int(task), cpus)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def connects(place):
    family, address = (socket.AF_INET, ("127.0.0.1", place)) if isinstance(place, int) else (socket.AF_UNIX, str(place))
    with socket.socket(family) as one:
        try:
            one.connect(address)
            return True
        except OSError:
            return False


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def kvserver(binaries, directory, name, memory, durability, flags=(), address=None):
    """A Remora server, over the local transport if no address is given, and its address."""
    address = address or f"local://{directory}/{name}.sock"
    command = [f"{binaries}/kvserver", f"--listen={address}", f"--memory={memory}", f"--durability={durability}",
               "--quiet", *flags]
    if durability != "memory":
        command.append(f"--data_dir={directory}/{name}.data")
    return Server(command, f"{directory}/{name}.log", "fd"), address


# --- Runs -------------------------------------------------------------------------------------------------


def kvbench(binaries, flags, report, cpus=None):
    """Runs it and returns what --json wrote; it stays in the file `report`."""
    command = [f"{binaries}/kvbench", *flags, f"--json={report}"]
    place = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=place,
                          check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    return json.loads(pathlib.Path(report).read_text())["phases"][-1]


def memory_for(records, value_size):
    """Bytes for a store of so many records, with space for clients and for cleaning."""
    return (384 << 20) + int(records * (value_size + 96) * 1.5)


# Types of flags. Python's own take 1_000, nan and blanks, too. argparse names the function in its error.


def positive_whole(text):
    if not re.fullmatch("0*[1-9][0-9]*", text, re.ASCII):
        raise ValueError(text)
    return int(text)


def number(text):
    """From 0 on."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?(e-?[0-9]{1,2})?", text, re.ASCII):
        raise ValueError(text)
    return float(text)


def positive_number(text):
    if number(text) == 0:
        raise ValueError(text)
    return number(text)


def size_of(text):
    """"1K" as 1024."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    digits, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    return positive_whole(digits) * unit


class Spread:
    """Some figures of one thing: the median, and the least and the most."""

    def __init__(self, values):
        self.values = list(values)
        self.median = statistics.median(self.values)
        self.least, self.most = min(self.values), max(self.values)

    def text(self, form="{:.2f}"):
        return f"{form.format(self.median)} ({form.format(self.least)} to {form.format(self.most)})"


# --- What is written about them -----------------------------------------------------------------------------


def machine():
    """Lines that say where and when."""
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                  if line.startswith("model name")), platform.machine())
    release = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip() or "unknown"
    load = os.getloadavg()[0]
    return [f"{len(CPUS)} x {model}, {memory} GiB, {release}, Linux {platform.release()}",
            f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, commit {commit}, "
            f"load average at the start {load:.1f}"]


def table(heading, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


class Workplace:
    """A folder for data and sockets, with the servers in it; all of it ends with the `with`."""

    def __enter__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="remora-bench-"))
        self.servers = []
        return self

    def add(self, server):
        self.servers.append(server)
        return server

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line. The description is the help's, as it stands."""

    def __init__(self, description):
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def parse_args(self, args=None, namespace=None):
        options, more = self.parse_known_args(args, namespace)
        if more and more[0].startswith("-"):
            self.error(f"there is no flag {more[0].split('=')[0]}")
        if more:
            self.error(f"the argument {more[0]!r} is one too many")
        return options

    def error(self, message):
        self.exit(os.EX_USAGE, f"{self.prog}: {message}; see {self.prog} --help\n")


def run_script(main):
    """main() with the exit statuses of all scripts: 0 or what it returns, 1 for a Failure, 64 for wrong usage, 130 when
    interrupted."""
    try:
        status = main()
    except Failure as failure:
        print(f"{pathlib.Path(sys.argv[0]).name}: {failure}", file=sys.stderr)
        status = 1
    except SystemExit as end:  # argparse's
        status = os.EX_USAGE if end.code else 0
    except KeyboardInterrupt:
        status = 130
    sys.exit(status or 0)
