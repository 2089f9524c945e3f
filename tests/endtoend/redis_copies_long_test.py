"""100,000 keys from a Redis, and to one, with the Redis or kvctl killed in the middle."""

import os
import subprocess
import unittest

import harness
import redis_copies
from redis_copies import counts

COUNT = int(os.environ.get("REMORA_COPIED_KEYS", "100000"))


class LongTest(redis_copies.TestCase):
    def records(self):
        """Texts, bytes, and values of different sizes; the same ones for each call."""
        for i in range(COUNT):
            key = b"key:%d" % i if i % 3 else b"\x00\xff" + i.to_bytes(8, "big")
            yield key, bytes((i * j) & 0xFF for j in range(i % 97))

    def begin(self, *arguments):
        run = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(run.communicate)
        self.addCleanup(run.kill)
        return run

    def fill_redis(self, redis):
        redis.fill(self.records())
        for i in range(50):
            redis.call("SET", f"expiring:{i}", i, "EX", 86400 + i)
            redis.call("LPUSH", f"list:{i}", i)

    def test_an_import_whose_redis_is_killed(self):
        self.logged_server(memory="256M")
        redis = self.redis()
        self.fill_redis(redis)
        relay = self.relay(redis, 1_000_000, holds=True)
        run = self.begin("import", f"--from={relay.address}")
        self.assertTrue(relay.held.wait(harness.PATIENCE))
        redis.close()
        relay.release.set()
        output, errors = run.communicate(timeout=harness.PATIENCE)
        self.assertEqual(run.returncode, 69, (output[-500:], errors))
        token = self.resume_token(errors)
        self.assertTrue(0 < int(counts(output)["imported"]) < COUNT)
        redis.start()
        self.fill_redis(redis)
        run = self.kvctl("import", f"--from={redis.address()}", f"--resume={token}", "--verify")
        report = counts(run.stdout)
        self.assertEqual(report["skipped_list"], "50")
        self.assertEqual(report["source_hash"], report["target_hash"])
        self.assertEqual(report["different"], "0")
        stored = self.stored()
        self.assertEqual(len(stored), COUNT + 50)
        self.assertEqual({key: stored[key] for key, _ in self.records()}, dict(self.records()))

    def test_an_export_that_is_killed_and_repeated(self):
        self.logged_server(memory="256M")
        redis = self.redis()
        self.fill_redis(redis)
        self.kvctl("import", f"--from={redis.address()}")
        redis.call("FLUSHALL")
        relay = self.relay(redis, 100_000, holds=True)
        run = self.begin("export", f"--to={relay.address}")
        self.assertTrue(relay.held.wait(harness.PATIENCE))
        run.kill()
        run.communicate(timeout=harness.PATIENCE)
        relay.release.set()
        self.assertTrue(0 < len(redis.records()) < COUNT)
        report = counts(self.kvctl("export", f"--to={redis.address()}", "--if_absent", "--verify").stdout)
        self.assertGreater(int(report["already_there"]), 0)
        self.assertEqual(int(report["exported"]) + int(report["already_there"]), COUNT + 50)
        self.assertEqual(report["source_hash"], report["target_hash"])
        copied = redis.records()
        self.assertEqual(len(copied), COUNT + 50)
        self.assertEqual({key: copied[key] for key, _ in self.records()}, dict(self.records()))
        self.assertGreater(int(redis.call("TTL", "expiring:7")[1:]), 80_000)


if __name__ == "__main__":
    unittest.main()
