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
        self.server("--durability=memory", "--eviction=none", "--ordered=memory", *command[1:])
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
        self.assertLessEqual(stats["ordered_index_bytes"], int(figures["ordered_index_bytes"]))
        self.assertGreater(stats["ordered_index_bytes"], int(figures["ordered_index_bytes"]) // 4)

    def test_large_values_take_whole_pages(self):
        for kib in (260, 300, 1000, 1024, 1025, 16384, 65536):
            with self.subTest(kib=kib):
                figures, _ = self.figures("--records=10", f"--value_size={kib}K")
                self.assertEqual(int(figures["record_bytes"]) % 4096, 0)
                self.assertGreater(int(figures["record_bytes"]), kib << 10)
                self.assertLessEqual(int(figures["record_bytes"]), (kib << 10) * 1.04)

    def test_the_ends_of_segments_count(self):
        figures, _ = self.figures("--records=10", "--value_size=256K")
        self.assertEqual(int(figures["record_bytes"]), (1 << 20) // 3)

    def test_the_index_takes_as_much_whatever_the_values_are(self):
        sizes = {self.figures("--records=100000", f"--value_size={size}")[0]["index_bytes"] for size in ("100", "64K", "260K")}
        self.assertEqual(len(sizes), 1, sizes)
        self.assertGreater(int(sizes.pop()), 100000 * 10)

    def test_a_larger_value_that_takes_the_same(self):
        for value_size, hint in (("8", "16 bytes"), ("100", ""), ("260K", ""), ("1M", "")):
            with self.subTest(value_size=value_size):
                run = size("--records=10", f"--value_size={value_size}")
                expected = f"kvctl: size: a value of {hint} takes the same\n" if hint else ""
                self.assertEqual((run.returncode, run.stderr.decode()), (0, expected))
                if not hint:
                    continue
                number = hint.split()[0]
                same = {self.figures("--records=10", f"--value_size={one}")[0]["record_bytes"] for one in (value_size, number)}
                self.assertEqual(len(same), 1)
                beyond = self.figures("--records=10", f"--value_size={int(number) + 1}")[0]
                self.assertGreater(int(beyond["record_bytes"]), int(same.pop()))

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
