"""ioredis and node-redis use a kvgate: commands, pipelines, and a gate that is killed meanwhile.

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

    def use(self, library):
        self.memory_server()
        port = harness.free_port()
        flags = (f"--listen=redis://127.0.0.1:{port}", f"--server={self.address}")
        gate = redis_pair.Gate(*flags)
        self.addCleanup(gate.close)
        client = subprocess.Popen(
            ["node", "clients.js", library, "127.0.0.1", str(port)], cwd=self.folder_of_clients,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        line = client.stdout.readline()
        if line != b"ready\n":
            self.fail(f"{line!r}: {client.communicate(timeout=harness.PATIENCE)}")
        gate.process.kill()
        gate.close()
        gate = redis_pair.Gate(*flags)
        self.addCleanup(gate.close)
        output, errors = client.communicate(b"go on\n", timeout=harness.PATIENCE)
        self.assertEqual((client.returncode, output), (0, b"done\n"), errors)
        self.assertEqual(harness.kvctl(self.address, "get", "key").stdout, b"after")

    def test_ioredis(self):
        self.use("ioredis")

    def test_node_redis(self):
        self.use("redis")


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
