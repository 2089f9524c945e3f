"""kvctl import --from and export --to over the servers of a cluster: a copy that was cut goes on at all of them."""

import unittest

import harness
import redis_copies
from redis_copies import counts

EX_USAGE, EX_UNAVAILABLE = 64, 69


class RedisClusterTest(redis_copies.TestCase, harness.ShardsTestCase):
    SHARDS = 2

    def setUp(self):
        super().setUp()
        self.running = self.start()

    def kvctl(self, *arguments, status=0, stdin=b""):
        run = harness.kvctl(None, f"--topology={self.topology}", *arguments, stdin=stdin)
        self.assertEqual(run.returncode, status, (run.stdout[-2000:], run.stderr))
        return run

    def test_copies_that_are_cut_go_on(self):
        redis = self.redis()
        records = {b"key %d" % i: b"v" * 100 for i in range(3000)}
        redis.fill(records.items())
        run = self.kvctl("import", f"--from={self.relay(redis, 200_000).address}", status=EX_UNAVAILABLE)
        token = self.resume_token(run.stderr)
        self.assertEqual(token.count(","), 1)  # a mark for each shard
        self.assertTrue(0 < len(self.stored()) < len(records))
        alone = harness.kvctl(self.address_of(0), "import", f"--from={redis.address()}", f"--resume={token}")
        self.assertEqual(alone.returncode, EX_USAGE)
        self.assertIn(b"the resume token is of 2 shards, and there are 1 here", alone.stderr)
        run = self.kvctl("import", f"--from={redis.address()}", f"--resume={token}", "--verify")
        self.assertEqual(counts(run.stdout)["different"], "0")
        self.assertEqual(self.stored(), records)
        # The way back: in order, and one shard after the other.
        for database, flags in ((1, ()), (2, ("--any_order",))):
            with self.subTest(flags=flags):
                cut = f"{self.relay(redis, 6_000).address}/{database}"
                run = self.kvctl("export", f"--to={cut}", *flags, status=EX_UNAVAILABLE)
                token = self.resume_token(run.stderr)
                there = redis.records(database)
                self.assertTrue(0 < len(there) < len(records))
                run = self.kvctl("export", f"--to={redis.address(database)}", f"--resume={token}")
                # It did not begin at the first key again.
                self.assertLess(int(counts(run.stdout)["already_there"]), len(there))
                self.assertEqual(redis.records(database), records)


if __name__ == "__main__":
    unittest.main()
