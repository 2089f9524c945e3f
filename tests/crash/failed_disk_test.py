"""A shard whose primary has a disk that fails. The disk is that of disk.h: REMORA_DISK_LIBRARY names the library."""

import errno
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
import harness  # noqa: E402
from failover_test import PATIENT, FailoverCase  # noqa: E402
from faults_test import SYNC  # noqa: E402


class FailedDiskTest(FailoverCase):
    def start(self, name, *flags, **options):
        (self.folder / "boot").write_text("first\n")
        faults = self.folder / f"{name}.faults"
        faults.write_bytes(bytes(64))
        environment = {
            "LD_PRELOAD": os.environ["REMORA_DISK_LIBRARY"],
            "REMORA_DISK": str(self.folder / f"{name}.data"),
            "REMORA_DISK_FAULTS": str(faults),
            "REMORA_DISK_BOOT": str(self.folder / "boot"),
        }
        return super().start(name, "--insecure_open", "--durability=synced", environment=environment, **options)

    def test_a_member_in_sync_takes_over_from_a_primary_whose_disk_fails(self):
        failed = self.start_all()
        self.assertEqual(self.put(failed, "key", "1"), 0)
        with (self.folder / f"{failed}.faults").open("r+b") as file:
            file.seek(SYNC)
            file.write(bytes([errno.EIO]))
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
