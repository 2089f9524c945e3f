"""Two servers with a part of the slots each, and their topology file, which tests replace under running clients."""

import re

import harness

HALVES = ["0-8191", "8192-16383"]


class TestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.addresses = [self.new_address(str(shard)) for shard in range(2)]
        self.topology = self.folder / "topology"
        run = harness.kvctl(None, "cluster", "init", *self.addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.topology.write_bytes(run.stdout)
        self.cluster = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()
        self.servers = []
        self.give(HALVES)

    def give(self, slots, *flags):
        """Starts the servers anew, with these slots, on their data."""
        self.slots = slots
        for server in self.servers:
            server.stop()
        self.servers = [
            harness.Server(
                f"--listen={self.addresses[shard]}", "--memory=64M", "--durability=logged",
                f"--data_dir={self.folder}/data{shard}", f"--shard={self.cluster}/{shard}",
                f"--slots={slots[shard]}", *flags,
            )
            for shard in range(2)
        ]  # fmt: skip
        for server in self.servers:
            self.addCleanup(server.close)

    def replace_file(self, slots):
        lines = [f"shard {shard} {slots[shard]} {self.addresses[shard]}" for shard in range(2)]
        text = "\n".join(["remora-topology 2", f"cluster {self.cluster}", *lines, ""])
        other = self.folder / "topology.new"
        other.write_text(text)
        other.rename(self.topology)

    def keys_of(self, shard, count):
        """Returns keys that the server of a shard takes. It has them then."""
        taken = (f"key{i}" for i in range(1000) if harness.kvctl(self.addresses[shard], "put", f"key{i}", "0").returncode == 0)
        return [next(taken) for _ in range(count)]

    def moved_requests(self):
        return sum(harness.stats(address)["moved_requests"] for address in self.addresses)
