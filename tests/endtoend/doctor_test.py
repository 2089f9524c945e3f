"""kvctl doctor: this machine as it is, with three things made wrong, and a server."""

import json
import os
import random
import resource
import shutil
import socket
import subprocess
import unittest

import harness

NAMES = {"memlock", "descriptors", "cpus", "memory", "memory_available", "huge_pages", "reserved_pages", "clock_source",
         "kernel", "program", "rocksdb", "rdma_devices"}  # fmt: skip
OF_DISK = {"data_dir", "disk_free", "file_system", "disk"}
OF_SERVER = {"server", "round_trip", "loading", "writes", "space"}


class DoctorTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        # Another user where that is possible: root may lock all memory.
        self.user = []
        self.kvctl = harness.program("kvctl")
        if os.geteuid() == 0:
            user = random.randrange(1 << 20, 1 << 30)
            self.user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
            self.folder.chmod(0o777)
            self.kvctl = shutil.copy(self.kvctl, self.folder)  # the build may lie where that user cannot go

    def doctor(self, *flags, limits=(), as_user=True):
        """Runs it with these limits (prlimit); returns its exit status and its standard output."""
        prefix = (["prlimit", *limits] if limits else []) + (self.user if as_user else [])
        run = subprocess.run(
            [*prefix, self.kvctl, "doctor", *flags], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.stderr, b"")
        return run.returncode, run.stdout.decode()

    def checks(self, *flags, **options):
        """The same with --json: the exit status, and the checks by their names."""
        status, output = self.doctor("--json", *flags, **options)
        everything = json.loads(output)
        self.assertEqual(output.count("\n"), 1)
        checks = {check["name"]: check for check in everything["checks"]}
        self.assertEqual(len(checks), len(everything["checks"]))
        verdicts = [check["verdict"] for check in checks.values()]
        self.assertLessEqual(set(verdicts), {"ok", "warning", "problem"})
        for verdict in ("warning", "problem"):
            self.assertEqual(verdicts.count(verdict), everything[verdict + "s"])
        self.assertEqual(status, 1 if "problem" in verdicts else 0)
        for check in checks.values():
            # The message of a server, or of a transport, may say what to do.
            if check["name"] not in ("server", "round_trip") or check["verdict"] == "ok":
                self.assertEqual("remedy" in check, check["verdict"] != "ok", check)
            self.assertNotIn("the message says", check.get("remedy", ""))
        return checks

    def problems(self, *flags, **options):
        return {name for name, check in self.checks(*flags, **options).items() if check["verdict"] == "problem"}

    def test_this_machine(self):
        checks = self.checks(f"--data_dir={self.folder}/data/below")
        self.assertLessEqual(NAMES | OF_DISK, set(checks))
        self.assertFalse(set(checks) & OF_SERVER)
        self.assertFalse((self.folder / "data").exists(), "it changes nothing")
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.assertLessEqual(checks["memory"]["value"], total)
        free = os.statvfs(self.folder)
        # Others write meanwhile.
        self.assertAlmostEqual(checks["disk_free"]["value"], free.f_bavail * free.f_frsize, delta=1 << 33)
        status, text = self.doctor(f"--data_dir={self.folder}/data/below")
        lines = text.splitlines()
        self.assertEqual([line.split()[1].rstrip(":") for line in lines[:-1]], list(checks))
        self.assertRegex(lines[-1], rf"\A{len(checks)} checks, \d+ warnings?, \d+ problems?\Z")
        self.assertEqual(status, 0 if lines[-1].endswith(" 0 problems") else 1)

    def test_three_things_that_are_wrong(self):
        server = f"--server=verbs://127.0.0.1:{harness.free_port()}"
        three = {"memlock", "descriptors", "memory"}
        # None of them is wrong yet, as far as this process may raise its limits.
        _, lockable = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        is_lockable = lockable == resource.RLIM_INFINITY or lockable >= 20 << 20
        before = self.problems("--memory=20M", server, limits=[f"--memlock={'unlimited' if lockable < 0 else lockable}"])
        self.assertEqual(before & three, set() if is_lockable else {"memlock"})
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        wrong = ["--memlock=65536:65536", "--nofile=64:64"]
        flags = [f"--memory={(total >> 20) + 1}M", server]
        checks = self.checks(*flags, limits=wrong)
        self.assertLessEqual(three, {name for name, check in checks.items() if check["verdict"] == "problem"})
        self.assertEqual((checks["memlock"]["value"], checks["memlock"]["limit"]), (65536, ((total >> 20) + 1) << 20))
        self.assertIn("ulimit -l", checks["memlock"]["remedy"])
        self.assertEqual(checks["descriptors"]["value"], 64)
        self.assertIn("ulimit -n", checks["descriptors"]["remedy"])
        self.assertIn("--memory=", checks["memory"]["remedy"])
        status, text = self.doctor(*flags, limits=wrong)
        self.assertEqual(status, 1)
        for name in three:
            self.assertRegex(text, rf"(?m)^problem  {name}: .*; .*")

    def test_a_server(self):
        checks = self.checks(f"--server={self.address}", f"--timeout={harness.PATIENCE * 100}")
        self.assertEqual(checks["server"]["verdict"], "problem")
        self.memory_server()
        checks = self.checks(f"--server={self.address}", as_user=False)
        self.assertLessEqual(OF_SERVER, set(checks))
        for name in OF_SERVER:
            self.assertEqual(checks[name]["verdict"], "ok", checks[name])
        pings = harness.stats(self.address)["pings"]
        self.assertGreater(pings, 1)

    def test_a_server_that_does_not_answer(self):
        port = harness.free_port()
        with socket.create_server(("127.0.0.1", port), backlog=1):
            checks = self.checks(f"--server=tcp://127.0.0.1:{port}", "--timeout=300")
        self.assertEqual(checks["server"]["verdict"], "problem")

    def test_a_directory_that_this_user_may_not_use(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        (self.folder / "data").mkdir(mode=0o755)
        checks = self.checks(f"--data_dir={self.folder}/data")
        self.assertEqual(checks["data_dir"]["verdict"], "warning")
        checks = self.checks(f"--data_dir={self.folder}/data", as_user=False)
        self.assertEqual(checks["data_dir"]["verdict"], "ok")

    def test_a_directory_that_is_not_there(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        (self.folder / "above").mkdir(mode=0o755)
        data = self.folder / "above" / "data"
        checks = self.checks(f"--data_dir={data}")
        self.assertEqual(checks["data_dir"]["verdict"], "warning")
        self.assertIn(f"{data} does not exist", checks["data_dir"]["found"])
        self.assertRegex(checks["data_dir"]["remedy"], rf"give it to the server's user.* install -d .* {data}\Z")
        self.assertEqual(self.checks(f"--data={data}")["data_dir"], checks["data_dir"])

    def test_few_descriptors(self):
        """It says that a server does not start where it does not."""
        if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 700:
            self.skipTest("needs 700 descriptors")
        for limit, verdict in ((64, "problem"), (240, "warning"), (700, "ok")):
            with self.subTest(limit=limit):
                check = self.checks("--memory=256M", limits=[f"--nofile={limit}:{limit}"])["descriptors"]
                self.assertEqual(check["verdict"], verdict, check)
                self.assertIn("85 clients", check["found"])
                server = subprocess.Popen(
                    ["prlimit", f"--nofile={limit}:{limit}", harness.program("kvserver"), f"--listen={self.address}{limit}",
                     f"--data_dir={self.folder}/data{limit}", "--memory=256M", "--commit_log=8M"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                with server:
                    line = server.stdout.readline()
                    server.terminate()
                is_ready = verdict != "problem"
                self.assertEqual((line.startswith(b"kvserver: ready"), server.returncode), (is_ready, 0 if is_ready else 71))

    def test_bad_input(self):
        for flag in ("--memory=0", "--memory=x", "--commit_log=1K", "--server=nowhere", "--data_dir=", "more"):
            run = harness.kvctl(None, "doctor", flag)
            self.assertEqual((run.returncode, run.stdout), (64, b""), run.stderr)
        with open("/dev/full", "wb") as full:
            run = subprocess.run(
                [harness.program("kvctl"), "doctor"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=harness.PATIENCE
            )
        self.assertEqual(run.returncode, 74)


if __name__ == "__main__":
    unittest.main()
