"""Clients that write and read keys of all slots of a cluster, and know what each read may show."""

import os
import pathlib
import random
import subprocess
import sys
import threading
import time

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

# Errors that a client may get of a server that is killed.
LOST = (remora.Unavailable, remora.DeadlineExceeded, remora.Unknown)


def begin_slow_move(test, topology, rate):
    """Begins a move from shard 0 to shard 1 that takes a while, and returns its process once the copy has begun."""
    arguments = ["cluster", "move", f"--topology={topology}", "--slots=0-3000", "--to=1", f"--rate={rate}"]
    slow = subprocess.Popen([harness.program("kvctl"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip
    test.addCleanup(slow.kill)
    harness.wait_until(test.leftovers, "the copy begins")
    return slow


class Load:
    """`faults` has what no client may see: a write that is lost, an old value, or a write that was done twice."""

    THREADS, KEYS = 3, 40

    def __init__(self, source):
        self.source = source
        self.stops = threading.Event()
        self.acknowledged = {}  # of each key: the number that was written last
        self.tried = {}
        self.faults = []
        self.writes = [0] * self.THREADS
        self.reads = 0
        self.longest = 0.0  # seconds of a write
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(self.THREADS)]
        for thread in self.threads:
            thread.start()

    def end(self):
        self.stops.set()
        for thread in self.threads:
            thread.join()

    def await_more(self):
        """Waits until each client has written all of its keys once more."""
        until = [writes + self.KEYS for writes in self.writes]
        harness.wait_until(lambda: self.faults or all(now >= then for now, then in zip(self.writes, until)), "clients write")

    def run(self, number):
        try:
            with remora.ClusterClient(self.source, timeout=30) as store:
                turn = 0
                while not self.stops.is_set():
                    turn += 1
                    self.write(store, number, f"{number} key {turn % self.KEYS}", turn)
                    self.count(store, f"{number} count {turn % self.KEYS}")
                    self.read(store, f"{random.randrange(self.THREADS)} key {random.randrange(self.KEYS)}")
        except Exception as error:  # noqa: BLE001: the test shows it
            self.faults.append(f"client {number}: {error!r}")

    def write(self, store, number, key, turn):
        self.tried[key] = turn
        while not self.stops.is_set():
            begin = time.monotonic()
            try:
                if turn % 5 == 0:
                    batch = remora.Batch()
                    batch.put(key, b"%d" % turn)
                    store.apply(batch)
                else:
                    store[key] = b"%d" % turn
            except LOST:
                time.sleep(0.01)  # a server was killed; to write the same value again changes nothing
                continue
            self.longest = max(self.longest, time.monotonic() - begin)
            self.acknowledged[key] = turn
            self.writes[number] += 1
            return

    def count(self, store, key):
        """Adds one. Only this client does, so a sum that is not the next one shows a write that was lost or done twice."""
        least, most = self.acknowledged.get(key, 0), self.tried.get(key, 0)
        self.tried[key] = most + 1
        try:
            found = store.increment(key)
        except LOST:
            return  # done, or not
        self.acknowledged[key] = self.tried[key] = found
        if not least < found <= most + 1:
            self.faults.append(f"{key} is {found} after another one, and was {least} to {most}")

    def read(self, store, key):
        least = self.acknowledged.get(key, 0)
        try:
            value = store.get_many([key])[0] if least % 2 else store.get(key)
        except LOST:
            return
        found, most = int(value or 0), self.tried.get(key, 0)
        self.reads += 1
        if not least <= found <= most:
            self.faults.append(f"{key} is {found}, and {least} was acknowledged, {most} tried")

    def check(self, store):
        for key, least in self.acknowledged.items():
            found, most = int(store.get(key) or 0), self.tried[key]
            if not least <= found <= most:
                self.faults.append(f"at the end, {key} is {found}, and {least} was acknowledged, {most} tried")
