"""Networks and hosts that fail, over real verbs. Runs in a guest with three hosts (tools/rdma-guest --hosts=3): the
server is on host 1, clients are on 2 and 3, and judge each answer that they get (network_client.cc).
  network_test.py [--long] [--connects=N] [--only=STEP,...]

  --long        each network for half a minute, eleven cuts, and more; about 8 minutes
  --connects=N  how often clients connect, and leave in order (20); a tenth of that, or 10, are killed
  --only=STEP   only these, by the names of their functions below

The environment variable REMORA_BIN names the folder of the built programs. Exit status: 0, or 1 if something was wrong.
"""

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
from harness import BIN, PATIENCE, Server, kvctl, program, wait_until  # noqa: E402

SERVER = "verbs://10.98.0.1:7470"
TIMEOUT_MS = 5000
# Two emulated CPUs are shared by all of it: so much later than stated may anything be noticed.
MARGIN = 8

LONG = "--long" in sys.argv
OPTIONS = dict(argument.removeprefix("--").split("=") for argument in sys.argv[1:] if "=" in argument)
CONNECTS = int(OPTIONS.get("connects", 20))
ONLY = OPTIONS.get("only", "").split(",") if "only" in OPTIONS else []
started = time.monotonic()
wrong = []


def say(text):
    print(f"{time.monotonic() - started:6.1f} s  {text}", flush=True)


def check(is_so, what):
    if not is_so:
        wrong.append(what)
        say(f"WRONG: {what}")


def ip(command):
    subprocess.run(["ip", *command.split()], check=True)


def all_hosts(netem):
    """The same disturbance of all that any host sends; none: ''."""
    lines = [f"qdisc replace dev h{i} root netem {netem}" if netem else f"qdisc del dev h{i} root" for i in (1, 2, 3)]
    subprocess.run(["tc", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def on_host(host):
    """The environment of a process there."""
    return {**os.environ, "LD_PRELOAD": str(BIN / "libnetwork_on_host.so"), "REMORA_ON_HOST": f"10.98.0.{host}"}


class Client:
    """A network_client on a host."""

    def __init__(self, host, *arguments):
        self.name = f"{arguments[0]} on host {host}"
        self.process = subprocess.Popen(
            [program("network_client"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=on_host(host), text=True, bufsize=1,
        )  # fmt: skip

    def connected(self, patience=PATIENCE):
        """Itself, when it is. So several start side by side."""
        if self.line(patience) != "connected\n":
            raise AssertionError(f"{self.name} did not connect")
        return self

    def line(self, patience=PATIENCE):
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.process.kill()
            raise AssertionError(f"{self.name} hangs")
        return self.process.stdout.readline()

    def report(self, command="report"):
        """Returns the events since the last report."""
        self.process.stdin.write(f"{command}\n")
        report = json.loads(self.line())
        for what in report["wrong"]:
            check(False, f"{self.name}: {what}")
        return report

    def noticed(self, since):
        """How the connection of a `notice` ended, and after how many seconds."""
        at_ms, code = json.loads(self.line())
        self.process.wait()
        return code, at_ms / 1000 - since

    def ends(self, how=None):
        """Leaves in order, or by a signal."""
        if how is not None:
            self.process.send_signal(how)
        self.process.stdin.close()
        self.process.wait(PATIENCE)


def failures(report):
    return ", ".join(f"{count} {code}" for code, count in report["failed"].items()) or "none failed"


def figures(report):
    return (
        f"{report['calls']} calls, {failures(report)}; GET p50 {report['p50_us'] / 1000:.1f} ms, "
        f"p99 {report['p99_us'] / 1000:.1f} ms; the longest call {report['longest_ms']} ms"
    )


class World:
    def __init__(self):
        self.start_server()
        self.a = Client(2, "work", SERVER, "a", "b", str(TIMEOUT_MS))
        self.b = Client(3, "work", SERVER, "b", "a", str(TIMEOUT_MS))
        self.a.connected()
        self.b.connected()
        # Resources of this server for two workers that have scanned. A worker that was cut off has
        # less until it scans again.
        self.at_rest = self.held()

    def start_server(self):
        self.server = Server(
            f"--listen={SERVER}", "--insecure_open", "--durability=logged", "--data_dir=/tmp/network_data",
            "--memory=128M", "--quiet",
        )  # fmt: skip

    def held(self):
        """Returns the resources of device and system that the server has; it is alone on its host."""
        resources = json.loads(subprocess.run(["rdma", "-j", "resource", "show"], capture_output=True, check=True).stdout)
        of_device = next(entry for entry in resources if entry["ifname"] == "rxe1")
        counts = {name: of_device[name] for name in ("pd", "cq", "qp", "cm_id", "mr", "ctx")}
        process = f"/proc/{self.server.process.pid}"
        # Files come and go: they are RocksDB's. So do descriptors, while one looks.
        counts["descriptors"] = 0
        for entry in pathlib.Path(f"{process}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                counts["descriptors"] += not os.readlink(entry).startswith("/tmp/")
        counts["mappings"] = pathlib.Path(f"{process}/maps").read_text().count("/memfd:")
        return counts

    def connections(self):
        """As the server counts them; kvctl itself may not be counted yet when it looks."""
        lines = kvctl(SERVER, "stats", env=on_host(3)).stdout.decode().splitlines()
        return int(dict(line.split() for line in lines)["connections"])

    def work(self, seconds):
        """Lets both clients work; returns what they report of just that time."""
        self.a.report()
        self.b.report()
        time.sleep(seconds)
        return self.a.report(), self.b.report()

    def await_success(self, client, since):
        """Until a call of the client succeeds that ended after `since`; returns how long after."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            succeeded = [t for t, code in client.report()["changes"] if code == "OK" and t / 1000 >= since]
            if succeeded:
                return succeeded[0] / 1000 - since
            time.sleep(0.05)
        check(False, f"{client.name}: no call succeeds any more")
        return PATIENCE


# --- a: effects of networks on packets


def lossy_networks(world):
    before = world.work(1)
    say(f"a good network: {figures(before[0])}")
    kinds = ["loss 5%", "delay 10ms", "duplicate 10%", "corrupt 3%"]
    # Packets that overtake each other are lost ones to a reliable connection.
    more = ["loss 1%", "delay 10ms 5ms", "delay 2ms reorder 25% 50%", "loss 3% duplicate 3% corrupt 1% delay 1ms"]
    for kind in kinds + more if LONG else kinds:
        all_hosts(kind)
        for report in world.work(30 if LONG else 1):
            say(f"{kind}: {figures(report)}")
        all_hosts("")


def small_packets(world):
    """A connection has packets of the size that both ends had when it began."""
    for mtu in (1500, 600):
        ip(f"link set h2 mtu {mtu}")
        say(f"MTU {mtu}: a call succeeds after {world.await_success(world.a, time.monotonic()):.1f} s")
        report, _ = world.work(5)
        check(not report["failed"], f"MTU {mtu}: {failures(report)} when all had settled")
        say(f"MTU {mtu}: {figures(report)}")
    ip("link set h2 mtu 4500")


# --- b, e: a cut link


def cut_for(world, seconds, meanwhile):
    """Cuts host 2 off; host 3 notices nothing of it."""
    quiet = world.work(1)[1]
    ip("link set p2 down")
    down = time.monotonic()
    meanwhile()
    time.sleep(max(0.0, down + seconds - time.monotonic()))
    other = world.b.report()
    up = time.monotonic()
    ip("link set p2 up")
    back = world.await_success(world.a, up)
    check(not other["failed"], f"host 3, while host 2 was cut off: {failures(other)}")
    ratio = other["p99_us"] / max(quiet["p99_us"], 1)
    say(f"host 2 cut off for {up - down:.1f} s: its first call succeeds {back:.1f} s after; "
        f"host 3: {figures(other)}, p99 {ratio:.2f} of before")  # fmt: skip
    # A handshake's message that was lost on the last moment: its attempt ends with the call, the next one begins.
    check(back <= TIMEOUT_MS / 1000 + 1 + MARGIN, f"host 2 came back only after {back:.1f} s")


def short_cuts(world):
    """Shorter than calls may take, but some longer than what is sent again: so calls go on over another connection."""
    for seconds in [1, *[3] * 10] if LONG else [3]:
        cut_for(world, seconds, lambda: None)


def long_cut(world):
    """Longer than calls may take; and clients on the host that is cut off die, so that nobody says so."""
    before = settled(world)
    gone = Client(2, "connect", SERVER, "5", "5").connected()
    check(world.held()["qp"] == before["qp"] + 5, "5 clients have 5 queue pairs")

    def die():
        gone.ends(signal.SIGKILL)
        since = time.monotonic()
        # Their pairs, and that of the worker, which is cut off, too.
        wait_until(lambda: world.held()["qp"] <= before["qp"], "the server notices that a client's host is gone")
        after = time.monotonic() - since
        check(after <= 5 + 2 + MARGIN, f"the server noticed only after {after:.1f} s that a client's host is gone")
        say(f"clients whose host is gone: noticed after {after:.1f} s")

    cut_for(world, TIMEOUT_MS / 1000 + 2, die)
    settled(world)


# --- c: programs that stop, and die


def frozen_server(world):
    world.work(0)
    world.server.process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    world.server.process.send_signal(signal.SIGCONT)
    for client in (world.a, world.b):
        report = client.report()
        check(not report["failed"], f"a server that was frozen for 2 s: {failures(report)}")
        say(f"the server frozen for 2 s: {figures(report)}")


def who_notices(*what):
    clients = {call: Client(3, "notice", SERVER, call) for call in what}
    return {call: client.connected() for call, client in clients.items()}


def killed_server(world):
    notices = who_notices("get", "put", "nothing")
    since = time.monotonic()
    world.server.kill()
    for what, client in notices.items():
        code, after = client.noticed(since)
        check(code == "UNAVAILABLE" and after <= MARGIN, f"a killed server, {what}: {code} after {after:.1f} s")
        say(f"the server killed; who does {what} notices after {after:.2f} s")
    come_back(world)


def server_without_a_host(world):
    """Cut off, then killed: nobody is told."""
    notices = who_notices("get", "put")
    ip("link set p1 down")
    since = time.monotonic()
    world.server.kill()
    for what, client in notices.items():
        code, after = client.noticed(since)
        # A request that has arrived, and is not answered, is given up at its deadline.
        most = 2 if what == "get" else TIMEOUT_MS / 1000
        check(code in ("UNAVAILABLE", "DEADLINE_EXCEEDED") and after <= most + MARGIN,
              f"a server's host is gone, {what}: {code} after {after:.1f} s")  # fmt: skip
        say(f"the server's host gone; who does {what} notices after {after:.1f} s: {code}")
    ip("link set p1 up")
    come_back(world)


def come_back(world):
    world.server.close()
    world.start_server()
    up = time.monotonic()
    for client in (world.a, world.b):
        back = world.await_success(client, up)
        check(back <= TIMEOUT_MS / 1000 + 1 + MARGIN, f"{client.name}: back only after {back:.1f} s")
        say(f"{client.name}: back {back:.1f} s after the server was ready again")


# --- d: nothing stays behind


def settled(world):
    """Waits until the server has what it had at first: a worker that was cut off scans again soon. Returns that."""
    try:
        wait_until(lambda: world.held() == world.at_rest, f"the server has {world.at_rest} again")
    except AssertionError as error:
        raise AssertionError(f"{error}, but has {world.held()}") from None
    return world.at_rest


def connects(world):
    connections = world.connections()
    before = settled(world)
    since = time.monotonic()
    Client(2, "connect", SERVER, str(CONNECTS), "5").connected(CONNECTS + PATIENCE).ends()
    say(f"{CONNECTS} clients came and went: {(time.monotonic() - since) / CONNECTS * 1000:.0f} ms for each")
    for _ in range(max(CONNECTS // 100, 1)):
        client = Client(2, "connect", SERVER, "10", "10").connected()
        held = world.held()
        check(held["qp"] == before["qp"] + 10, f"10 more clients: {held}, before: {before}")
        since = time.monotonic()
        client.ends(signal.SIGKILL)
        wait_until(lambda: world.held()["qp"] == before["qp"], "the server notices that clients were killed")
        after = time.monotonic() - since
        check(after <= MARGIN, f"the server noticed only after {after:.1f} s that clients were killed")
    say(f"10 clients killed: noticed, and all of theirs gone, after {after:.2f} s")
    settled(world)
    after = world.connections()
    check(abs(after - connections) <= 1, f"the server counts {after} connections, before: {connections}")
    say(f"the server has {before}, as before, and counts {after} connections")


def main():
    world = World()
    say("the server and two clients are there")
    steps = [lossy_networks, short_cuts, long_cut, frozen_server, connects, server_without_a_host]
    if LONG:
        steps += [killed_server, small_packets]
    for step in steps:
        if not ONLY or step.__name__ in ONLY:
            step(world)
    for client in (world.a, world.b):
        report = client.report("end")
        say(f"at the end, {client.name}: {report['reconnects']} reconnects, "
            f"{report['completion_queries']} lost answers asked for; {figures(report)}")  # fmt: skip
        client.process.wait(PATIENCE)
    world.server.close()
    say("nothing was wrong" if not wrong else f"{len(wrong)} things were WRONG")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
