"""ioredis and node-redis use a kvgate, and gates as nodes of a Redis Cluster: commands, pipelines, and gates that are
killed meanwhile.

npm takes them from their registry, in the versions and with the hashes of node/package-lock.json.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
import redis_pair

NODE = pathlib.Path(__file__).parent / "node"
INSTALL_PATIENCE = 500
UNREACHABLE = re.compile(r"ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT")
SKIPPED = 77


def install(folder):
    """Installs the clients there. Returns why that is impossible here; empty: it is done."""
    for program in ("node", "npm"):
        if not shutil.which(program):
            return f"there is no {program} (tools/install-deps node)"
    for name in ("package.json", "package-lock.json", "clients.js"):
        shutil.copy(NODE / name, folder)
    run = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True,
        timeout=INSTALL_PATIENCE, check=False,
    )  # fmt: skip
    if run.returncode == 0:
        return ""
    if UNREACHABLE.search(run.stderr):
        return f"the registry of npm cannot be reached: {run.stderr.strip().splitlines()[-1]}"
    raise SystemExit(f"npm ci: {run.returncode}: {run.stderr}")


class NodeTest(redis_pair.TestCase):
    folder_of_clients = ""

    def start_gate(self, *flags):
        gate = redis_pair.Gate(*flags)
        self.addCleanup(gate.close)
        return gate

    def use(self, library, nodes=0):
        """`nodes`: gates that are those of a Redis Cluster, in place of one gate. The last one, which has the slot of
        `key`, is killed."""
        self.memory_server()
        ports = sorted(harness.free_port() for _ in range(max(nodes, 1)))
        addresses = [f"redis://127.0.0.1:{port}" for port in ports]
        cluster = [f"--cluster_nodes={','.join(addresses)}"] if nodes else []
        flags = [(f"--listen={address}", f"--server={self.address}", *cluster) for address in addresses]
        gates = [self.start_gate(*of_gate) for of_gate in flags]
        client = subprocess.Popen(
            ["node", "clients.js", library, "127.0.0.1", str(ports[0])], cwd=self.folder_of_clients,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        line = client.stdout.readline()
        if line != b"ready\n":
            self.fail(f"{line!r}: {client.communicate(timeout=harness.PATIENCE)}")
        for port in ports:
            info = self.wire(("127.0.0.1", port)).call("INFO", "stats")
            self.assertGreater(int(re.search(rb"total_commands_processed:(\d+)", info).group(1)), 300)
        gates[-1].process.kill()
        gates[-1].close()
        self.start_gate(*flags[-1])
        output, errors = client.communicate(b"go on\n", timeout=harness.PATIENCE)
        self.assertEqual((client.returncode, output), (0, b"done\n"), errors)
        self.assertEqual(harness.kvctl(self.address, "get", "key").stdout, b"after")

    def test_ioredis(self):
        self.use("ioredis")

    def test_node_redis(self):
        self.use("redis")

    def test_ioredis_of_a_cluster(self):
        self.use("ioredis-cluster", nodes=2)

    def test_node_redis_of_a_cluster(self):
        self.use("redis-cluster", nodes=2)


def main():
    folder = tempfile.mkdtemp(prefix="remora-node-")
    try:
        if why := install(folder):
            print(f"skipped: {why}")
            return SKIPPED
        NodeTest.folder_of_clients = folder
        return not unittest.main(exit=False).result.wasSuccessful()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
