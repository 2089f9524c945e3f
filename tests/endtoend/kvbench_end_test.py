"""How a kvbench ends that is interrupted, or whose output goes nowhere; and that no output takes another file's place."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import unittest

import harness

RECORDS = 1000
EX_USAGE = 64
EX_UNAVAILABLE = 69
EX_CANTCREAT = 73
EX_IOERR = 74


def fill(descriptor):
    """Writes until the pipe takes nothing more."""
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except BlockingIOError:
        os.set_blocking(descriptor, True)


class KvbenchEndTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.outputs = self.folder / "outputs"
        self.outputs.mkdir()
        self.json = self.outputs / "out.json"

    def command(self, command, *flags, json=True, records=RECORDS):
        target = [f"--target={self.address}", f"--records={records}", "--workload=a"]
        return [harness.program("kvbench"), command, *target, *([f"--json={self.json}"] if json else []), *flags]

    def start(self, command, *flags, json=True, records=RECORDS, **options):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen(self.command(command, *flags, json=json, records=records), text=True, **streams)
        self.addCleanup(process.kill)
        return process

    def run_to_end(self, *arguments):
        return subprocess.run(
            [harness.program("kvbench"), *arguments], capture_output=True, text=True, timeout=harness.PATIENCE, check=False
        )

    def await_the_run(self):
        harness.wait_until(lambda: harness.stats(self.address)["puts"] > RECORDS, "an update of the run")

    def names(self):
        return sorted(path.name for path in self.outputs.iterdir())

    def phases(self):
        return json.loads(self.json.read_text())["phases"]

    def end_after_a_restart(self, server, *flags):
        """Starts the server anew within the load. Returns the server and the ended kvbench, if the load went on."""
        records = 8_000
        before = harness.stats(self.address)["puts"]
        process = self.start("all", "--seconds=600", *flags, records=records)
        harness.wait_until(lambda: harness.stats(self.address)["puts"] > before + 100, "a part of the load")
        harness.freeze(process)
        loaded = harness.stats(self.address)["puts"] - before
        server.kill()
        server = self.logged_server()
        process.send_signal(signal.SIGCONT)
        if loaded >= records:
            process.kill()
        output, errors = process.communicate(timeout=harness.PATIENCE)
        # On a slow machine, the load may have ended before, or a write may have found no server in time.
        if loaded >= records or self.phases()[0]["errors"]:
            return server, None
        return server, (process.returncode, output, errors)

    def test_a_run_does_not_begin_when_the_server_was_started_anew(self):
        server = self.logged_server()
        for flags in ((), ("--processes=2",)):
            ended = None
            while ended is None:
                server, ended = self.end_after_a_restart(server, *flags)
            status, output, errors = ended
            self.assertEqual(status, EX_UNAVAILABLE, errors)
            self.assertIn("the server was started anew since the load began", errors)
            self.assertRegex(output, r"load +all ")
            self.assertEqual([phase["phase"] for phase in self.phases()], ["load"])

    def test_a_terminal_that_goes_takes_no_results_along(self):
        self.memory_server()
        process = self.start("all", "--seconds=600")
        self.await_the_run()
        self.assertEqual(self.names(), [])
        process.send_signal(signal.SIGHUP)
        _, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGHUP, errors)
        self.assertEqual(self.phases()[-1]["cut_short"], True)
        self.assertEqual(self.names(), ["out.json"])

    def test_nohup_is_heeded(self):
        self.memory_server()
        process = self.start("all", "--seconds=600", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.await_the_run()
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)

    def test_a_killed_one_leaves_no_file(self):
        self.memory_server()
        process = self.start("all", "--seconds=600", f"--csv={self.outputs}/out.csv")
        self.await_the_run()
        process.kill()
        process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(self.names(), [])

    def test_a_reader_that_goes_takes_no_results_along(self):
        self.memory_server()
        read_end, write_end = os.pipe()
        os.close(read_end)
        process = self.start("all", "--seconds=0.1", stdout=write_end)
        _, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, EX_IOERR, errors)
        self.assertIn("standard output cannot be written", errors)
        self.assertEqual([phase["phase"] for phase in self.phases()], ["load", "run"])
        self.assertEqual(self.names(), ["out.json"])
        # Without a file, it does not go on for nobody.
        process = self.start("all", "--seconds=600", stdout=write_end, json=False)
        os.close(write_end)
        _, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, EX_IOERR, errors)

    def test_errors_that_nobody_reads_take_no_results_along(self):
        self.memory_server()
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        fill(write_end)
        process = self.start("run", "--operations=100", stderr=write_end)  # of records that are not there
        os.close(write_end)
        output, _ = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 1, output)
        self.assertRegex(output, r"run +all ")
        self.assertEqual([phase["phase"] for phase in self.phases()], ["run"])
        self.assertNotEqual(self.phases()[0]["errors"], [])

    def test_a_silent_server_does_not_make_it_deaf(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
            silent.bind(str(self.folder / "socket"))
            silent.listen()
            for flags in ([], ["--processes=2"]):
                with self.subTest(flags=flags):
                    process = self.start("all", *flags)
                    connection, _ = silent.accept()
                    process.send_signal(signal.SIGINT)
                    process.communicate(timeout=harness.PATIENCE)
                    self.assertEqual(process.returncode, -signal.SIGINT)
                    connection.close()
                    self.assertEqual(self.names(), [])

    def test_a_silent_server_of_another_kind_has_failed(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
            silent.bind(str(self.folder / "redis"))
            silent.listen()
            run = self.run_to_end("all", f"--target=redis://{self.folder}/redis", "--records=10")
        self.assertEqual(run.returncode, EX_UNAVAILABLE, run.stderr)
        self.assertRegex(run.stderr, "did not answer for 4 s|was built without")

    def test_a_server_that_falls_silent_does_not_make_it_deaf(self):
        """Its operations would wait for 5 s, and what asks for the server's counters as long again."""
        tcp = f"tcp://127.0.0.1:{harness.free_port()}"
        server = self.server("--durability=memory", "--memory=64M", f"--listen={tcp}")
        for flags in [], ["--depth=8"], ["--processes=2"], [f"--target={tcp}"]:
            with self.subTest(flags=flags):
                command = self.command("all", "--seconds=600", *flags)
                if flags[0:1] == [f"--target={tcp}"]:
                    command.remove(f"--target={self.address}")
                process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(process.kill)
                puts = harness.stats(self.address)["puts"]
                harness.wait_until(lambda: harness.stats(self.address)["puts"] > puts + RECORDS, "an update of the run")
                harness.freeze(server.process)
                process.send_signal(signal.SIGINT)
                try:
                    _, errors = process.communicate(timeout=harness.PATIENCE)
                finally:
                    server.process.send_signal(signal.SIGCONT)
                self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
                # Not as a failure of the server.
                self.assertNotIn("DEADLINE_EXCEEDED", errors)
                self.assertEqual((self.phases()[-1]["cut_short"], json.loads(self.json.read_text())["errors"]), (True, 0))
                self.json.unlink()

    def test_a_second_signal_ends_what_does_not_end(self):
        """Here, as nobody reads the file that it writes."""
        self.memory_server()
        os.mkfifo(self.json)
        pipe = os.open(self.json, os.O_RDWR)
        self.addCleanup(os.close, pipe)
        fill(pipe)
        process = self.start("all", "--seconds=600")
        self.await_the_run()

        def has_ended():
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        harness.wait_until(has_ended, "it has ended")
        self.assertEqual(process.returncode, 128 + signal.SIGINT)

    def test_an_interrupted_warm_up_says_so(self):
        for command, phases in ("all", ["load", "warm-up"]), ("run", ["warm-up"]):
            with self.subTest(command=command):
                self.memory_server()
                if command == "run":
                    subprocess.run(self.command("load"), capture_output=True, timeout=harness.PATIENCE, check=True)
                process = self.start(command, "--warmup=600", "--seconds=1")
                self.await_the_run()
                process.send_signal(signal.SIGTERM)
                output, errors = process.communicate(timeout=harness.PATIENCE)
                self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
                self.assertRegex(output, r"warm-up +all .*, cut short; client CPU")
                report = json.loads(self.json.read_text())
                self.assertEqual([phase["phase"] for phase in report["phases"]], phases)
                self.assertEqual((report["phases"][-1]["cut_short"], report["cut_short"]), (True, True))
                shown = self.run_to_end("report", str(self.json), f"--html={self.outputs}/page")
                self.assertEqual(shown.returncode, 0, shown.stderr)
                self.address += "-"

    def test_an_interrupted_floor_cleans_up(self):
        self.memory_server()
        disk = self.folder / "disk"
        process = self.start("floor", "--operations=50000000", f"--data_dir={disk}")
        harness.wait_until(lambda: harness.stats(self.address)["pings"] > 0, "its first turn")
        self.assertTrue(disk.exists())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertIn("ended by signal 2", errors)
        self.assertFalse(disk.exists())
        self.assertEqual([phase["phase"] for phase in self.phases()], ["load"])

    def test_no_output_takes_anothers_place(self):
        done = ["all", "--target=embedded", "--records=10", "--operations=10"]
        measured = self.run_to_end(*done, f"--json={self.json}")
        self.assertEqual(measured.returncode, 0, measured.stderr)
        before = self.json.read_bytes()
        (self.outputs / "link").symlink_to("out.json")
        (self.outputs / "dangling").symlink_to("new")
        workload = self.write("workload", "recordcount=10\n")
        for arguments in (
            ["report", self.json, f"--html={self.json}"], ["report", self.json, f"--html={self.outputs}/link"],
            [*done, f"--json={self.json}", f"--csv={self.outputs}/./out.json"],
            [*done, f"--json={self.json}", f"--html={self.outputs}/link"],
            [*done, f"--csv={self.outputs}/new", f"--html={self.outputs}/dangling"],
            ["all", "--target=embedded", "-P", workload, f"--json={workload}"],
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                rejected = self.run_to_end(*map(str, arguments))
                self.assertEqual((rejected.returncode, rejected.stdout), (EX_USAGE, ""), rejected.stderr)
                self.assertIn("is also the file of", rejected.stderr)
        self.assertEqual(self.json.read_bytes(), before)
        self.assertEqual(pathlib.Path(workload).read_text(), "recordcount=10\n")
        self.assertEqual(self.names(), ["dangling", "link", "out.json"])
        null = self.run_to_end(*done, "--json=/dev/null", "--csv=/dev/null")
        self.assertEqual(null.returncode, 0, null.stderr)

    def test_outputs_of_all_kinds(self):
        done = ["all", "--target=embedded", "--records=10", "--operations=10"]
        pipe = self.outputs / "pipe"
        os.mkfifo(pipe)
        rejected = self.run_to_end(*done, f"--json={pipe}")
        self.assertEqual((rejected.returncode, rejected.stdout), (EX_CANTCREAT, ""), rejected.stderr)
        self.assertIn("nobody reads it", rejected.stderr)
        # A reader: one that holds both ends never waits for the other.
        read_end = os.open(pipe, os.O_RDWR)
        self.addCleanup(os.close, read_end)
        written = self.run_to_end(*done, f"--json={pipe}")
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual(json.loads(os.read(read_end, 1 << 16))["errors"], 0)
        longest = self.outputs / ("x" * 255)
        written = self.run_to_end(*done, f"--json={longest}")
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual(json.loads(longest.read_text())["errors"], 0)
        rejected = self.run_to_end(*done, f"--json={longest}x")
        self.assertEqual(rejected.returncode, EX_CANTCREAT, rejected.stderr)
        (self.outputs / "dangling").symlink_to("new")
        written = self.run_to_end(*done, f"--json={self.outputs}/dangling")
        self.assertEqual(written.returncode, 0, written.stderr)
        self.assertEqual(json.loads((self.outputs / "new").read_text())["errors"], 0)
        self.assertTrue((self.outputs / "dangling").is_symlink())
        nowhere = self.outputs / "nowhere"
        nowhere.symlink_to("none/none")
        self.assertEqual(self.run_to_end(*done, f"--json={nowhere}").returncode, EX_CANTCREAT)
        nowhere.unlink()
        nowhere.symlink_to("nowhere")
        self.assertEqual(self.run_to_end(*done, f"--json={nowhere}").returncode, EX_CANTCREAT)


if __name__ == "__main__":
    unittest.main()
