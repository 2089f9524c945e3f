"""The disk of disk.h beneath a server that a test starts, and its faults. REMORA_DISK_LIBRARY names the library."""

import os

# The places of the faults in their file, the same as in disk.h.
CHANGE, WRITE, SYNC, READ, ONLY, RESERVE = 0, 1, 2, 3, 6, 7


class FaultyDisk:
    """A folder of which calls fail as the test says. `faults` and `boot` are files of the test's own."""

    def __init__(self, folder, faults, boot):
        self.faults, self.boot = faults, boot
        faults.write_bytes(bytes(64))
        self.start_machine("first")
        self.environment = {
            "LD_PRELOAD": os.environ["REMORA_DISK_LIBRARY"],
            "REMORA_DISK": str(folder),
            "REMORA_DISK_FAULTS": str(faults),
            "REMORA_DISK_BOOT": str(boot),
        }

    def start_machine(self, boot):
        """The servers that are started from now on find a machine that was started again."""
        self.boot.write_text(boot + "\n")

    def set(self, fault, value):
        """Calls of this kind fail with an errno from now on; 0: they succeed."""
        with self.faults.open("r+b") as file:
            file.seek(fault)
            file.write(bytes([value]))
