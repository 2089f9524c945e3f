"""The bytes that kvbench reports, against the values that are in the server, as kvctl exports them."""

import base64
import csv
import json
import subprocess
import unittest
import xml.etree.ElementTree

import harness

RECORDS = 200
LEAST = 1 << 10
MOST = 64 << 10
XHTML = "{http://www.w3.org/1999/xhtml}"


def size_of(record):
    if "value" in record:
        return len(record["value"].encode())
    return len(base64.b64decode(record["value_base64"]))


class KvbenchBandwidthTest(harness.TestCase):
    def kvbench(self, command, *flags):
        run = subprocess.run(
            [harness.program("kvbench"), command, *flags],
            capture_output=True, text=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        return run.returncode, run.stdout, run.stderr

    def bench(self, command, *flags, name="out"):
        """Returns the phases, and what was printed."""
        status, output, errors = self.kvbench(
            command, f"--target={self.address}", f"--records={RECORDS}", f"--value_size={LEAST}..{MOST}", "--verify",
            "--distribution=sequential", f"--operations={RECORDS}", f"--json={self.folder}/{name}.json",
            f"--csv={self.folder}/{name}.csv", *flags,
        )  # fmt: skip
        self.assertEqual(status, 0, errors)
        return json.loads((self.folder / f"{name}.json").read_text())["phases"], output

    def stored_sizes(self):
        run = harness.kvctl(self.address, "export", "--any_order")
        self.assertEqual(run.returncode, 0, run.stderr)
        return [size_of(line) for line in map(json.loads, run.stdout.splitlines()) if "key" in line or "key_base64" in line]

    def test_the_bytes_of_a_load_are_those_that_are_stored(self):
        for distribution, flags in (
            ("uniform", []), ("zipfian", ["--depth=8", "--threads=2"]), ("uniform", ["--processes=2"]),
        ):  # fmt: skip
            with self.subTest(distribution=distribution, flags=flags):
                self.address += "-"
                server = self.memory_server()
                (load,), output = self.bench("load", f"--value_size_distribution={distribution}", *flags)
                sizes = self.stored_sizes()
                self.assertEqual(len(sizes), RECORDS)
                self.assertGreaterEqual(min(sizes), LEAST)
                self.assertLessEqual(max(sizes), MOST)
                self.assertGreater(len(set(sizes)), RECORDS // 4)
                for place in (load, load["by_operation"]["insert"]):
                    self.assertEqual((place["value_bytes_read"], place["value_bytes_written"]), (0, sum(sizes)))
                    rate = sum(sizes) / load["seconds"]
                    self.assertLess(abs(place["value_bytes_written_per_second"] / rate - 1), 1e-6)
                self.assertIn(f"{LEAST} to {MOST} bytes ({distribution})", output)
                self.assertRegex(output, r"per second +read MB/s +written MB/s")
                # Of the run, each record is read, or read and written, once.
                for kind, mix, times in (("read", "readproportion=1", 0), ("rmw", "readmodifywriteproportion=1", 1)):
                    none = [part for name in ("read", "update") for part in ("-p", f"{name}proportion=0")]
                    (run,), _ = self.bench(
                        "run", f"--value_size_distribution={distribution}", *none, "-p", mix, *flags
                    )
                    moved = run["by_operation"][kind]
                    self.assertEqual(
                        (moved["operations"], moved["value_bytes_read"], moved["value_bytes_written"]),
                        (RECORDS, sum(sizes), times * sum(sizes)),
                    )
                self.assertEqual(sorted(self.stored_sizes()), sorted(sizes))
                server.stop()

    def test_the_files_and_the_page_have_the_bandwidth(self):
        self.memory_server()
        self.bench("all", "--workload=a", name="first")
        self.bench("run", "--workload=a", "--interval=0.05", name="second")
        with open(self.folder / "second.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        phase = json.loads((self.folder / "second.json").read_text())["phases"][0]
        for name in ("value_bytes_read", "value_bytes_written"):
            for intervals in (True, False):
                of = [int(row[name]) for row in rows if (row["operation"] == "all") == intervals]
                self.assertEqual(sum(of), phase[name])
        page = self.folder / "page.html"
        reports = [f"{self.folder}/{name}.json" for name in ("first", "second")]
        self.assertEqual(self.kvbench("report", *reports, f"--html={page}"), (0, "", ""))
        headings = [cell.text for cell in xml.etree.ElementTree.parse(page).iter(f"{XHTML}th")]
        at = headings.index("operations") + 1
        self.assertRegex(",".join(headings[at : at + 6]), r"^per second,ratio,read, .B/s,ratio,written, .B/s,ratio$")

    def test_runs_of_other_sizes_are_marked(self):
        self.memory_server()
        self.bench("load", name="uniform")
        self.bench("load", "--value_size_distribution=zipfian", name="zipfian")
        page = self.folder / "page.html"
        reports = [f"{self.folder}/{name}.json" for name in ("uniform", "zipfian")]
        self.assertEqual(self.kvbench("report", *reports, f"--html={page}"), (0, "", ""))
        self.assertIn("value size or placement: fieldlengthdistribution.", page.read_text())

    def test_a_load_of_scans_takes_a_depth_and_a_run_does_not(self):
        self.memory_server()
        flags = [f"--target={self.address}", "--workload=e", "--depth=16", "--records=50"]
        status, output, errors = self.kvbench("load", *flags)
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(output, r"load +insert +50 ")
        for command in ("run", "all"):
            status, output, errors = self.kvbench(command, *flags)
            self.assertEqual((status, output), (64, ""))
            self.assertIn("with scans, the depth is 1", errors)

    def test_wrong_sizes_are_rejected(self):
        flags = [f"--target={self.address}"]
        for wrong, says in (
            (["--value_size=8K..4K"], "'8K..4K': the first size is more than the second; name the smaller first"),
            (["--value_size=4K..65M"], "'4K..65M': allowed is a size from 16 to 64M"),
            (["--value_size_distribution=zipfian"], "needs --value_size=LEAST..MOST"),
            (["-p", "minfieldlength=80"], "minfieldlength=80 is more than fieldlength=64"),
            (["-p", "minfieldlength=20"], "needs fieldlengthdistribution=uniform or zipfian"),
        ):
            with self.subTest(wrong=wrong):
                status, output, errors = self.kvbench("load", *flags, *wrong)
                self.assertEqual((status, output), (64, ""))
                self.assertIn(says, errors)


if __name__ == "__main__":
    unittest.main()
