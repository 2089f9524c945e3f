"""kvctl size, beside a server that is started with what it says."""

import subprocess
import unittest

import harness


def size(*flags):
    return harness.kvctl(None, "size", *flags)


class SizeTest(harness.TestCase):
    def figures(self, *flags):
        run = size(*flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = run.stdout.decode().splitlines()
        return dict(line.split() for line in lines[:-1]), lines[-1].split()

    def test_a_server_with_as_much_holds_the_records_and_writes_them_again(self):
        figures, command = self.figures("--records=40000", "--value_size=1000", "--key_size=24", "--clients=4")
        self.assertEqual(command[0], "kvserver")
        self.assertEqual(command[1], f"--memory={figures['memory']}")
        self.server("--durability=memory", "--eviction=none", *command[1:])
        for command in ("load", "run"):
            run = subprocess.run(
                [harness.program("kvbench"), command, f"--target={self.address}", "--records=40000", "--value_size=1000",
                 "--workload=a", *(["--operations=80000"] if command == "run" else [])],
                capture_output=True, timeout=4 * harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual(run.returncode, 0, run.stderr)
        stats = harness.stats(self.address)
        self.assertEqual((stats["keys"], stats["evictions"]), (40000, 0))
        self.assertLessEqual(stats["registered_bytes"], int(figures["memory"][:-1]) << 20)
        # The estimate is not far from what it takes, either.
        self.assertGreater(stats["log_bytes_used"], int(figures["log_bytes"]) * 9 // 10)
        self.assertGreater(stats["index_bytes"], int(figures["index_bytes"]) // 4)

    def test_large_values_have_segments_of_their_own(self):
        for value_size, record_bytes in (("256K", 320 << 10), ("260K", 1 << 20), ("1M", 2 << 20), ("1000K", 1 << 20)):
            with self.subTest(value_size=value_size):
                figures, _ = self.figures("--records=10", f"--value_size={value_size}")
                self.assertLessEqual(int(figures["record_bytes"]), record_bytes)
                self.assertGreater(int(figures["record_bytes"]), record_bytes // 2)

    def test_bad_input(self):
        for flags, why in (
            ([], b"--records is missing"), (["--records=5"], b"--value_size is missing"),
            (["--records=0", "--value_size=1"], b"--records"), (["--records=1", "--value_size=65M"], b"--value_size"),
            (["--records=1", "--value_size=1", "--key_size=0"], b"--key_size"),
            (["--records=1", "--value_size=1", "--clients=0"], b"--clients"),
            (["--records=1000000000000", "--value_size=64M"], b"a server has up to"),
            (["--records=1e6", "--value_size=1"], b"--records"), (["--records=-1", "--value_size=1"], b"--records"),
        ):  # fmt: skip
            with self.subTest(flags=flags):
                run = size(*flags)
                self.assertEqual((run.returncode, run.stdout), (64, b""), run.stderr)
                self.assertIn(why, run.stderr)


if __name__ == "__main__":
    unittest.main()
