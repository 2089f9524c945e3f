"""Readers and a writer over a promotion, while the old primary runs on: each read against the acknowledged writes."""

import os
import pathlib
import signal
import sys
import threading
import unittest

import harness
from replication_test import ReplicationCase

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

LEASE = "--lease_time=500ms"


class Counter:
    """A key whose value only a writer raises. A read that begins behind an acknowledgement shows that, or later."""

    def __init__(self, address):
        self.address = address
        self.acknowledged = 0
        self.reads = [0] * 3
        self.faults = []
        self.replaced = threading.Event()  # from here on, the first primary may fail
        self.over = threading.Event()
        self.threads = []

    def begin(self, work, *arguments):
        thread = threading.Thread(target=self.run, args=(work, *arguments))
        self.threads.append(thread)
        thread.start()

    def run(self, work, *arguments):
        try:
            work(*arguments)
        except Exception as fault:  # the test fails with it
            self.faults.append(repr(fault))

    def write(self):
        with remora.Client(self.address, timeout=2) as store:
            number = 1
            while not self.over.is_set():
                try:
                    store.put("key", str(number))
                    self.acknowledged = number
                except (remora.Unavailable, remora.DeadlineExceeded, remora.Unknown):
                    pass  # perhaps done, perhaps not
                except remora.FailedPrecondition as error:
                    if "may have been replaced" not in str(error):
                        raise
                number += 1

    def read(self, place, address, until_it_fails):
        with remora.Client(address, timeout=2) as store:
            while not self.over.is_set():
                least = self.acknowledged
                try:
                    value = int(store.get("key"))
                except (remora.Unavailable, remora.DeadlineExceeded):
                    if until_it_fails and self.replaced.is_set():
                        return
                    continue
                if value < least:
                    self.faults.append(f"reader {place} read {value} behind the acknowledgement of {least}")
                self.reads[place] += 1

    def await_more(self, readers):
        """Waits for some more writes, and reads of these readers."""
        acknowledged, reads = self.acknowledged, list(self.reads)
        harness.wait_until(
            lambda: self.faults
            or (self.acknowledged > acknowledged + 20 and all(self.reads[i] > reads[i] + 20 for i in readers)),
            "writes and reads go on",
        )

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class PromotionTest(ReplicationCase):
    def promote_under_load(self, stop):
        self.follower("f", LEASE)
        primary = self.start("p", LEASE, to=["f"])
        self.await_serving("p")
        self.put("p", "key", "0")
        both = f"{self.at('p')},{self.at('f')}"
        counter = Counter(both)
        counter.begin(counter.write)
        counter.begin(counter.read, 0, both, False)
        counter.begin(counter.read, 1, both, False)
        counter.begin(counter.read, 2, self.at("p"), True)
        try:
            counter.await_more([0, 1, 2])
            counter.replaced.set()
            if stop:
                harness.freeze(primary.process)
            self.expect(self.kvctl("f", "promote"), 0, "promoted: a primary of epoch 2")
            counter.await_more([0, 1])
            if stop:
                primary.process.send_signal(signal.SIGCONT)
                counter.await_more([0, 1])
        finally:
            counter.end()
        self.assertEqual(counter.faults, [])

    def test_nothing_old_is_read_while_the_old_primary_runs_on(self):
        self.promote_under_load(stop=False)

    def test_nothing_old_is_read_of_a_stopped_primary_that_goes_on(self):
        self.promote_under_load(stop=True)


if __name__ == "__main__":
    unittest.main()
