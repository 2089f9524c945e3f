"""A primary that is cut off from etcd and from the other members of its shard, while a client beside it reads its memory.

Member a is alone on one host, with the reader; etcd, members b and c, and the writer are on the other (two_hosts.py). No
read may show less than a write that was acknowledged before it began. The hosts have one clock.

The environment variable REMORA_BIN names the folder of the built programs. Exit status: 0; 1 if something was wrong; 77 if
the system has no namespaces.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import two_hosts

two_hosts.enter()

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
from harness import BIN, PATIENCE  # noqa: E402

PACKAGE = BIN.resolve().parent / "python"
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

ETCD = f"http://{two_hosts.SERVER_HOST}:2379"
SHARD = "5f0c0000000000aa/one"
ADDRESSES = {
    "a": f"tcp://{two_hosts.CLIENT_HOST}:7400",
    "b": f"tcp://{two_hosts.SERVER_HOST}:7401",
    "c": f"tcp://{two_hosts.SERVER_HOST}:7402",
}
ENOUGH = 50  # reads or writes


class Fault(Exception):
    """The text says what was wrong."""


def await_that(is_so, what):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise Fault(f"it is still not so that {what}")
        time.sleep(0.02)


class Shard:
    """Etcd, the members and the reader. They end with the `with`."""

    def __init__(self, network, folder):
        self.network = network
        self.folder = folder
        self.processes = {}

    def __enter__(self):
        peers = f"http://{two_hosts.SERVER_HOST}:2380"
        self.start("etcd", [], "etcd", "--name=one", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={ETCD}",
                   f"--advertise-client-urls={ETCD}", f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
                   f"--initial-cluster=one={peers}")  # fmt: skip
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
            process.wait()

    def start(self, name, host, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen([*host, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_member(self, name, data=None):
        host = self.network.on_client_host() if name == "a" else []
        own = [f"--listen=local://{self.folder}/a.sock"] if name == "a" else []
        self.start(name, host, BIN / "kvserver", f"--listen={ADDRESSES[name]}", *own, "--insecure_open", "--memory=32M",
                   f"--data_dir={self.folder}/{data or name}.data", f"--shard={SHARD}", f"--member={name}", f"--etcd={ETCD}",
                   "--commit_log=8M",
                   *[f"--initial_member={one}={address}" for one, address in ADDRESSES.items()])  # fmt: skip

    def members(self):
        """The exit status of `kvctl cluster members`, and the member that serves, or None."""
        run = subprocess.run(
            [BIN / "kvctl", "cluster", "members", f"--etcd={ETCD}", f"--shard={SHARD}", "--timeout=1000", "--json"],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        shown = json.loads(run.stdout)["members"] if run.stdout else []
        serves = [one["id"] for one in shown if one["part"] == "primary" and one["state"] == "serves"]
        return run.returncode, serves[0] if serves else None

    def reads(self):
        """The reads of the reader: when each began, and the number that it showed; None: it failed."""
        lines = (self.folder / "reader.log").read_text().splitlines()[:-1]
        return [(float(begun), None if shown == "failed" else int(shown)) for begun, shown in map(str.split, lines)]


class Writer:
    """Raises the value of a key until its end."""

    def __init__(self):
        self.acknowledged = []  # when, and the number
        self.fault = ""
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            with remora.Client(",".join(ADDRESSES.values()), timeout=2) as store:
                number = 0
                while not self.over.is_set():
                    number += 1
                    try:
                        store.put("key", str(number))
                        self.acknowledged.append((time.monotonic(), number))
                    except (remora.Unavailable, remora.DeadlineExceeded, remora.Unknown):
                        pass  # perhaps done, perhaps not
        except Exception as error:  # the test fails with it
            self.fault = repr(error)

    def await_more(self):
        before = len(self.acknowledged)
        await_that(lambda: self.fault or len(self.acknowledged) > before + ENOUGH, "writes are acknowledged")
        if self.fault:
            raise Fault(f"the writer: {self.fault}")

    def end(self):
        self.over.set()
        self.thread.join()


def read_for_ever(address):
    """The reader, on the host of member a."""
    while True:
        try:
            with remora.Client(address, timeout=1) as store:
                while True:
                    begun = time.monotonic()
                    print(f"{begun:.6f} {int(store.get('key'))}", flush=True)
                    time.sleep(0.0005)
        except remora.Error:
            print(f"{time.monotonic():.6f} failed", flush=True)
            time.sleep(0.01)


def old_read(reads, acknowledged):
    """The first read that showed too little, as a text."""
    at, least = 0, 0
    for begun, shown in reads:
        while at < len(acknowledged) and acknowledged[at][0] < begun:
            least = acknowledged[at][1]
            at += 1
        if shown is not None and shown < least:
            return f"a read showed {shown}, behind the acknowledgement of {least}"
    return ""


def cut_off(shard, network, writer):
    shard.start("reader", network.on_client_host(), sys.executable, "-B", __file__, f"local://{shard.folder}/a.sock")
    await_that(lambda: sum(shown is not None for _, shown in shard.reads()) > ENOUGH, "the reader reads")
    writer.await_more()
    network.is_cut = True
    cut_at = time.monotonic()
    await_that(lambda: shard.members()[1] in ("b", "c"), "another member serves")
    writer.await_more()
    print(f"another member serves {writer.acknowledged[-ENOUGH][0] - cut_at:.1f} s after the cut")
    if shard.processes["a"].poll() is not None:
        raise Fault("the member that was cut off has ended, which it could not know")
    network.is_cut = False
    await_that(lambda: shard.processes["a"].poll() is not None, "the replaced member ends")
    if shard.processes["a"].returncode != 75:
        raise Fault(f"the replaced member ended with {shard.processes['a'].returncode}")
    shard.start_member("a", data="new")  # it may have a write that was never acknowledged
    await_that(lambda: shard.members()[0] == 0, "it is in sync again")
    writer.await_more()
    writer.end()
    reads = shard.reads()
    if not any(shown is None and begun > cut_at for begun, shown in reads):
        raise Fault("the reader beside the member that was cut off never failed")
    if fault := old_read(reads, writer.acknowledged):
        raise Fault(fault)
    print(f"{len(reads)} reads and {len(writer.acknowledged)} acknowledged writes")


def main():
    network = two_hosts.Network()
    try:
        with tempfile.TemporaryDirectory(prefix="remora-") as folder, Shard(network, pathlib.Path(folder)) as shard:
            try:
                shard.start_member("a")
                await_that(lambda: shard.members()[1] == "a", "member a serves")
                shard.start_member("b")
                shard.start_member("c")
                await_that(lambda: shard.members()[0] == 0, "all members are in sync")
                writer = Writer()
                try:
                    cut_off(shard, network, writer)
                finally:
                    writer.end()
            except Fault as fault:
                print(fault)
                for log in sorted(shard.folder.glob("?.log")):
                    print(*[f"{log.stem}: {line}" for line in log.read_text(errors="replace").splitlines()[-6:]], sep="\n")
                return 1
    finally:
        network.close()
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        read_for_ever(sys.argv[1])
    sys.exit(main())
