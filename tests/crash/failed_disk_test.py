"""A shard whose primary has a disk that fails."""

import errno
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
import harness  # noqa: E402
from failover_test import PATIENT, FailoverCase  # noqa: E402
from faulty_disk import SYNC, FaultyDisk  # noqa: E402


class FailedDiskTest(FailoverCase):
    def setUp(self):
        super().setUp()
        self.disks = {}

    def start(self, name, *flags, **options):
        """Starts a member on a disk without faults."""
        disk = FaultyDisk(self.folder / f"{name}.data", self.folder / f"{name}.faults", self.folder / f"{name}.boot")
        self.disks[name] = disk
        return super().start(name, "--insecure_open", "--durability=synced", environment=disk.environment, **options)

    def test_a_member_in_sync_takes_over_from_a_primary_whose_disk_fails(self):
        failed = self.start_all()
        self.assertEqual(self.put(failed, "key", "1"), 0)
        self.disks[failed].set(SYNC, errno.EIO)
        # It is sent again to the member that serves next, unless the primary has answered that its disk failed.
        addresses = ",".join(self.addresses.values())
        written = harness.kvctl(addresses, PATIENT, "put", "key", "2")
        self.assertIn(written.returncode, (0, 74), written.stderr)
        self.assertNotEqual(self.servers[failed].process.wait(timeout=harness.PATIENCE), 0)
        self.servers[failed].await_said(b"another member takes over: .*Input/output error")
        successor = self.primary()
        self.assertIn(self.get(successor, "key"), ["2"] if written.returncode == 0 else ["1", "2"])
        self.assertEqual(self.put(successor, "key", "3"), 0)
        self.start(failed)  # the disk was repaired
        self.await_in_sync(3)
        self.assertEqual(self.primary(), successor)


if __name__ == "__main__":
    unittest.main()
