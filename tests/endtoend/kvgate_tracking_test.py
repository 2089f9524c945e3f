"""CLIENT TRACKING of kvgate, beside that of a real Redis; and a cache that is never stale."""

import random
import re
import signal
import threading
import unittest

import harness
import redis_pair

ON = ("CLIENT", "TRACKING", "ON")
OFF = ("CLIENT", "TRACKING", "OFF")
INFO = ("CLIENT", "TRACKINGINFO")
GET_REDIRECT = ("CLIENT", "GETREDIR")
# Of one connection, one after the other.
COMMANDS = [
    ("CLIENT", "TRACKING"), ("CLIENT", "TRACKING", "maybe"), (*ON, "WORD"), (*ON, "PREFIX"), (*ON, "PREFIX", "a"),
    (*ON, "REDIRECT", "x"), (*ON, "REDIRECT", "9999"), (*ON, "REDIRECT", "0"), (*ON, "REDIRECT", "-1"),
    (*ON, "BCAST", "OPTIN"), (*ON, "BCAST", "OPTOUT"), (*ON, "OPTIN", "OPTOUT"), (*ON, "BCAST", "PREFIX", "a", "PREFIX", "ab"),
    ("CLIENT", "CACHING", "YES"), ("CLIENT", "CACHING"), ("CLIENT", "CACHING", "YES", "x"), GET_REDIRECT,
    (*GET_REDIRECT, "x"), INFO, (*INFO, "x"), OFF, (*OFF, "WORD"), (*OFF, "PREFIX", "a"),
    ON, INFO, GET_REDIRECT, ("CLIENT", "CACHING", "YES"), ("CLIENT", "CACHING", "NO"), ("CLIENT", "CACHING", "x"), (*ON, "BCAST"),
    (*ON, "OPTIN"), INFO, ("CLIENT", "CACHING", "NO"), ("CLIENT", "CACHING", "YES"), INFO, ("GET", "a"), INFO,
    ("CLIENT", "CACHING", "YES"), ("nothing",), INFO, ("CLIENT", "CACHING", "YES"), ("CONFIG", "GET", "save"), INFO,
    ("CLIENT", "CACHING", "YES"), ("PING",), INFO, ("CLIENT", "CACHING", "YES"), ("MULTI",), ("GET", "a"), INFO, ("EXEC",), INFO,
    ("CLIENT", "CACHING", "YES"), (*ON, "OPTIN", "NOLOOP"), INFO, (*ON, "OPTOUT"), OFF, INFO,
    (*ON, "OPTOUT"), ("CLIENT", "CACHING", "YES"), ("CLIENT", "CACHING", "NO"), INFO, ON, INFO, (*ON, "OPTIN"), INFO, OFF,
    (*ON, "BCAST"), INFO, (*ON, "BCAST"), (*ON, "BCAST", "PREFIX", "a"), ON, OFF,
    (*ON, "BCAST", "PREFIX", "b", "PREFIX", "a"), (*ON, "BCAST", "PREFIX", "c", "NOLOOP"), INFO,
    (*ON, "BCAST", "PREFIX", "ab"), (*ON, "BCAST", "PREFIX", "a"), (*ON, "BCAST"), INFO,
    (*ON, "BCAST", "PREFIX", "x", "PREFIX", "x"), ("RESET",), INFO, GET_REDIRECT,
    ("CONFIG", "GET", "tracking*"), ("CONFIG", "SET", "tracking-table-max-keys", "-1"), ("CONFIG", "SET", "tracking-table-max-keys", "x"),
    ("CONFIG", "SET", "tracking-table-max-keys", "7"), ("CONFIG", "GET", "tracking-table-max-keys"),
]  # fmt: skip


def invalidation(key):
    return b">2\r\n$10\r\ninvalidate\r\n" + (b"_\r\n" if key is None else b"*1\r\n$%d\r\n%b\r\n" % (len(key), key))


class Base(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.server_process = self.logged_server()
        self.gate_process = self.gate("--threads=2", "--timeout=10000").process

    def connected(self, address=None, protocol=3):
        wire = self.wire(address)
        if protocol == 3:
            wire.call("HELLO", 3)
        return wire

    def tracking(self, *options):
        wire = self.connected()
        self.assertEqual(wire.call(*ON, *options), b"+OK\r\n")
        return wire

    def cached(self, wire, key, value):
        """Has a client cache a value. Its change has been shown, so the next one is another."""
        wire.call("GET", key)
        self.assertEqual(wire.call("SET", key, value), b"+OK\r\n")
        self.assertEqual(wire.reply(), invalidation(key.encode()))
        self.assertEqual(wire.call("GET", key), b"$%d\r\n%b\r\n" % (len(value), value.encode()))

    def first_push(self, wire):
        """Returns the first push that comes. A key of its own is read and written until then, so that one comes."""
        pushes = []

        def has_come():
            wire.send(redis_pair.request("GET", "mark") + redis_pair.request("SET", "mark", 1))
            while (said := wire.reply()) != b"+OK\r\n":
                pushes.extend([said] if said.startswith(b">") else [])
            return pushes

        harness.wait_until(has_come, "a push comes")
        return pushes[0]

    def reply_behind_marks(self, wire):
        """Returns the next reply or push. Those of the key of `first_push` may come until then."""
        while (said := wire.reply()) == invalidation(b"mark"):
            pass
        return said

    def on_both(self, dialogue, protocols=(3,)):
        theirs = self.redis()
        for protocol in protocols:
            expected, got = (dialogue(lambda protocol=protocol, path=path: self.connected(path, protocol)) for path in (theirs, self.gate_path))
            self.assertEqual(got, expected)
            self.assertNotEqual(got, [])


class CommandTest(Base):
    def test_replies_and_errors(self):
        def dialogue(connect):
            wire = connect()
            return [(words, wire.call(*words)) for words in COMMANDS]

        self.on_both(dialogue, (2, 3))

    def test_client_list_and_info(self):
        wire = self.tracking("BCAST", "PREFIX", "a")
        self.assertIn(b" flags=tB ", wire.call("CLIENT", "INFO"))
        self.assertIn(b" redir=0 ", wire.call("CLIENT", "LIST"))
        self.assertIn(b"\r\ntracking_clients:1\r\n", wire.call("INFO", "clients"))
        self.assertIn(b"\r\ntracking_total_keys:0\r\ntracking_total_items:0\r\ntracking_total_prefixes:1\r\n", wire.call("INFO", "stats"))
        wire.call(*OFF)
        self.assertIn(b" redir=-1 ", wire.call("CLIENT", "INFO"))
        self.assertIn(b"\r\ntracking_clients:0\r\n", wire.call("INFO", "clients"))

    def test_in_a_transaction_it_is_an_error(self):
        wire = self.connected()
        for words in (("MULTI",), ON):
            wire.call(*words)
        self.assertIn(b"-ERR CLIENT TRACKING is not allowed", wire.call("EXEC"))


class KeyTest(Base):
    def test_keys_of_reads(self):
        reads = [("GET", "k"), ("MGET", "j", "k"), ("EXISTS", "k"), ("TTL", "k"), ("STRLEN", "k"), ("TYPE", "k"), ("OBJECT", "ENCODING", "k")]

        def dialogue(connect):
            writer, said = connect(), []
            writer.call("SET", "k", 0)
            for words in reads:
                wire = connect()
                said += [wire.call(*ON), wire.call(*words), writer.call("SET", "k", 1), wire.reply()]
            wire = connect()
            said += [wire.call(*ON), wire.call("GETEX", "k"), wire.call("GET", "end"), writer.call("MSET", "k", 1, "end", 1), wire.reply()]
            said += [wire.call("GET", "k"), writer.call("DEL", "k"), wire.reply(), wire.call("PING")]
            return said

        self.on_both(dialogue)

    def test_optin_optout_and_transactions(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [wire.call(*ON, "OPTIN"), wire.call("GET", "a"), wire.call("CLIENT", "CACHING", "YES"), wire.call("GET", "b")]
            said += [writer.call("MSET", "a", 1, "b", 1), wire.reply()]
            said += [wire.call("CLIENT", "CACHING", "YES"), wire.call("MULTI"), wire.call("GET", "a"), wire.call("GET", "b"), wire.call("EXEC")]
            said += [writer.call("MSET", "a", 2, "b", 2), wire.reply(), wire.reply()]
            said += [wire.call(*OFF), wire.call(*ON, "OPTOUT"), wire.call("CLIENT", "CACHING", "NO"), wire.call("GET", "a"), wire.call("GET", "b")]
            said += [writer.call("MSET", "a", 3, "b", 3), wire.reply(), wire.call("PING")]
            return said

        self.on_both(dialogue)

    def test_exec_beside_other_writes(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [wire.call(*ON), wire.call("WATCH", "k"), wire.call("GET", "k"), writer.call("SET", "k", 1), wire.reply()]
            # Its read is stale: nothing is written, so nothing is invalidated.
            said += [wire.call("MULTI"), wire.call("GET", "k"), wire.call("SET", "k", 2), wire.call("EXEC")]
            said += [wire.call("GET", "k"), writer.call("SET", "k", 3), wire.reply()]
            # Its own write invalidates what the same EXEC has read.
            said += [wire.call("MULTI"), wire.call("GET", "k"), wire.call("SET", "k", 4), wire.call("EXEC"), wire.reply()]
            said += [wire.call("MULTI"), wire.call("GET", "k"), wire.call("EXEC"), writer.call("DEL", "k"), wire.reply(), wire.call("PING")]
            return said

        self.on_both(dialogue)

    def test_prefixes(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [wire.call(*ON, "BCAST", "PREFIX", "x:", "PREFIX", "y:"), writer.call("SET", "x:1", 1), wire.reply()]
            said += [writer.call("SET", key, 1) for key in ("z", "x", "xx:1", "y:")] + [wire.reply()]
            said += [writer.call("DEL", "x:1"), wire.reply(), wire.call("GET", "z"), writer.call("SET", "z", 2), wire.call("PING")]
            said += [wire.call("SET", "x:1", 1), wire.reply(), wire.call(*OFF), writer.call("SET", "x:1", 2), wire.call("PING")]
            return said

        self.on_both(dialogue)

    def test_several_keys_of_a_prefix(self):
        wire, writer = self.tracking("BCAST", "PREFIX", "x:", "PREFIX", "y:"), self.wire()
        writer.call("MSET", "x:1", 1, "z", 1, "y:1", 1)
        self.assertEqual([wire.reply() for _ in range(2)], [invalidation(key) for key in (b"x:1", b"y:1")])

    def test_noloop_hides_no_write_of_others(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            return [wire.call(*ON, "NOLOOP"), wire.call("GET", "k"), writer.call("SET", "k", 1), wire.reply(), wire.call("PING")]

        self.on_both(dialogue)

    def test_noloop_shows_own_writes(self):
        """A difference from Redis: the server's changes do not tell the writer."""
        wire = self.tracking("NOLOOP")
        self.cached(wire, "k", "v")

    def test_expiries(self):
        wire = self.tracking()
        for i in range(20):  # until it is read before it expires
            key = f"k{i}"
            self.cached(wire, key, "v")
            wire.call("SET", key, "w", "PX", 50 << i)
            self.assertEqual(wire.reply(), invalidation(key.encode()))
            if wire.call("GET", key) == b"$1\r\nw\r\n":
                return self.assertEqual(wire.reply(), invalidation(key.encode()))
            wire = self.tracking()  # whether it is invalidated depends on the time
        return self.fail("no value lives until it is read")

    def test_a_full_table(self):
        wire = self.tracking()
        wire.call("CONFIG", "SET", "tracking-table-max-keys", 2)
        for key in ("a", "b", "c"):
            self.assertEqual(wire.call("GET", key), b"_\r\n")
        self.assertEqual(wire.reply(), invalidation(b"a"))
        self.assertIn(b"\r\ntracking_total_keys:2\r\n", wire.call("INFO", "stats"))


class EndTest(Base):
    """Ends of the tracking leave no state."""

    def counts(self, wire):
        return re.findall(rb"tracking_(?:clients|total_prefixes):\d+", wire.call("INFO", "clients") + wire.call("INFO", "stats"))

    def test_reset_off_and_the_end_of_the_connection(self):
        def dialogue(connect):
            other, said = connect(), []
            for end in (("RESET",), OFF):
                wire = connect()
                said += [wire.call(*ON), wire.call("GET", "k"), self.counts(other), wire.call(*end), self.counts(other)]
                said += [other.call("SET", "k", 1), wire.call("PING"), wire.call(*INFO)]
                wire = connect()
                said += [wire.call(*ON, "BCAST", "PREFIX", "a", "PREFIX", "b"), self.counts(other), wire.call(*end)]
                said += [self.counts(other), other.call("SET", "a", 1), wire.call("PING"), wire.call(*INFO)]
            wire = connect()
            said += [wire.call(*ON, "BCAST", "PREFIX", "a"), self.counts(other)]
            wire.close()
            harness.wait_until(lambda: b"tracking_clients:0" in self.counts(other), "its connection ends")
            return [*said, self.counts(other)]

        self.on_both(dialogue)


class RedirectTest(Base):
    def test_to_subscribers(self):
        for protocol in (2, 3):
            def dialogue(connect):
                target, wire, writer = connect(), connect(), connect()
                number = target.call("CLIENT", "ID")[1:-2]
                said = [target.call("SUBSCRIBE", "__redis__:invalidate"), wire.call(*ON, "REDIRECT", number, "REDIRECT", number)]
                said += [wire.call(*ON, "REDIRECT", number), wire.call("GET", "k"), writer.call("SET", "k", 1), target.reply()]
                return said

            self.on_both(dialogue, (protocol,))

    def test_a_target_that_is_gone(self):
        def dialogue(connect):
            target, wire, writer = connect(), connect(), connect()
            number = target.call("CLIENT", "ID")[1:-2]
            said = [wire.call(*ON, "REDIRECT", number), wire.call(*GET_REDIRECT), wire.call("GET", "k"), wire.call(*INFO)]
            target.close()
            harness.wait_until(lambda: b"id=%b " % number not in writer.call("CLIENT", "LIST"), "the target has gone")
            said += [writer.call("SET", "k", 1), wire.reply(), wire.call(*INFO), wire.call(*GET_REDIRECT)]
            said += re.findall(rb" flags=[A-Tt]+", wire.call("CLIENT", "INFO"))  # without U of a Unix socket
            said += [wire.call(*ON, "REDIRECT", number), wire.call(*ON), wire.call(*INFO)]
            return [part.replace(b":" + number, b":N") for part in said]

        self.on_both(dialogue)

    def test_to_a_connection_of_resp2(self):
        def dialogue(connect):
            target, wire, writer = connect(2), connect(3), connect(3)
            number = target.call("CLIENT", "ID")[1:-2]
            said = [target.call("SUBSCRIBE", "__redis__:invalidate"), wire.call(*ON, "BCAST", "PREFIX", "k", "REDIRECT", number)]
            for words in (("SET", "k1", 1), ("DEL", "k1")):
                said += [writer.call(*words), target.reply()]
            return [*said, target.call("PING"), wire.call("PING")]

        theirs = self.redis()
        expected, got = (dialogue(lambda protocol, path=path: self.connected(path, protocol)) for path in (theirs, self.gate_path))
        self.assertEqual(got, expected)


class WatchTest(Base):
    """Rules that each client relies on. A later invalidation shows that an earlier one did not come."""

    def test_the_first_write_is_shown(self):
        for i in range(4):  # a watch anew for each client
            wire = self.connected()
            wire.send(redis_pair.request(*ON) + redis_pair.request("GET", "k") + redis_pair.request("SET", "k", i))
            self.assertEqual(wire.reply(), b"+OK\r\n")
            said = [wire.reply(), wire.reply()]
            if said[-1] != b"+OK\r\n":
                self.assertEqual([said[1], wire.reply()], [invalidation(b"k"), b"+OK\r\n"])
            else:
                self.assertEqual(self.first_push(wire), invalidation(b"k"))
            wire.call(*OFF)

    def test_it_is_on_once_its_watch_has_begun(self):
        socket = self.folder / "own"
        self.server("--durability=logged", f"--data_dir={self.folder}/own.data", "--memory=64M", address=f"local://{socket}")
        gate = redis_pair.Gate(f"--listen=redis://{self.folder}/own.sock", f"--server=local://{socket}", "--timeout=500")
        self.addCleanup(gate.close)
        wire = self.connected(f"{self.folder}/own.sock")
        harness.wait_until(lambda: wire.call(*ON) == b"+OK\r\n", "it is on")  # on a busy machine, not in half a second
        self.assertEqual(wire.call(*OFF), b"+OK\r\n")
        # The watch is a connection anew, and there are no others.
        socket.rename(self.folder / "aside")

        def says_why():
            reply = wire.call(*ON)
            self.assertTrue(reply.startswith(b"-ERR CLIENT TRACKING: the server does not show its changes"), reply)
            return b"it has not begun in time" in reply

        harness.wait_until(says_why, "it says why")
        (self.folder / "aside").rename(socket)
        harness.wait_until(lambda: wire.call(*ON) == b"+OK\r\n", "it is on again")

    def test_reads_are_registered(self):
        everything, writer = self.tracking("BCAST"), self.connected()
        for reads in ([("GET", "k")], [("MULTI",), ("GET", "k"), ("EXEC",)]):
            wire = self.tracking()
            for words in reads:
                wire.call(*words)
            writer.call("SET", "k", 1)
            self.assertEqual(everything.reply(), invalidation(b"k"))  # and so for all clients
            # At the latest, it follows the reply to the first PING, and so comes before that to the second.
            self.assertIn(invalidation(b"k"), [wire.call("PING"), wire.call("PING")])

    def test_an_invalidation_follows_the_replies_that_have_begun(self):
        gate = redis_pair.Gate(f"--listen=redis://{self.folder}/one.sock", f"--server={self.address}", "--timeout=60000")
        self.addCleanup(gate.close)
        wire, other = (self.connected(f"{self.folder}/one.sock") for _ in range(2))
        for words in (ON, ("GET", "a"), ("GET", "b")):
            wire.call(*words)
        harness.freeze(self.server_process.process)
        try:
            wire.send(redis_pair.request("INCR", "n"))
            other.call("CONFIG", "SET", "tracking-table-max-keys", 1)  # takes `a`, without the server
            for _ in range(20):  # the gate's one thread serves both
                other.call("PING")
        finally:
            self.server_process.process.send_signal(signal.SIGCONT)
        self.assertEqual([wire.reply(), wire.reply()], [b":1\r\n", invalidation(b"a")])


class ServerTest(Base):
    def test_a_server_that_comes_back(self):
        wire = self.tracking()
        self.cached(wire, "k", "1")
        self.server_process.kill()
        self.logged_server()
        harness.kvctl(self.address, "put", "k", "2")
        self.assertEqual(wire.reply(), invalidation(None))
        self.assertEqual(wire.call("GET", "k"), b"$1\r\n2\r\n")

    def test_another_server_invalidates_all(self):
        wire = self.tracking()
        for i in range(20):  # so that the other log ends before the position of the watch
            self.cached(wire, f"k{i}", "1")
        self.server_process.kill()
        self.server("--durability=logged", f"--data_dir={self.folder}/other", "--memory=64M", "--commit_log=8M")
        self.assertEqual(self.first_push(wire), invalidation(None))
        wire.send(redis_pair.request("GET", "k0"))
        self.assertEqual(self.reply_behind_marks(wire), b"_\r\n")
        # And goes on.
        harness.kvctl(self.address, "put", "k0", "3")
        self.assertEqual(self.reply_behind_marks(wire), invalidation(b"k0"))
        self.assertEqual(wire.call("GET", "k0"), b"$1\r\n3\r\n")

    def test_a_server_without_changes_ends_the_connection(self):
        wire, target, sender = self.tracking(), self.connected(), self.connected()
        target.call("SUBSCRIBE", "__redis__:invalidate")
        self.assertEqual(sender.call(*ON, "REDIRECT", int(target.call("CLIENT", "ID")[1:])), b"+OK\r\n")
        self.cached(wire, "k", "1")
        self.server_process.kill()
        self.memory_server()
        self.assertIn(list(iter(wire.reply, b"")), ([], [invalidation(None)]))
        self.assertEqual(sender.reply(), b"")
        self.assertEqual(target.reply(), invalidation(None))
        wire = self.connected()
        self.assertIn(b"-ERR CLIENT TRACKING: the server does not show its changes", wire.call(*ON))
        self.assertEqual(wire.call("GET", "k"), b"_\r\n")

    def test_lost_changes_invalidate_all(self):
        wire = self.tracking()
        self.cached(wire, "k", "1")
        other = redis_pair.Gate(f"--listen=redis://{self.folder}/other.sock", f"--server={self.address}", "--timeout=60000")
        self.addCleanup(other.close)
        writer = self.wire(f"{self.folder}/other.sock")
        harness.freeze(self.gate_process)
        writer.call("SET", "k", 2)
        for i in range(120):  # several times the log
            self.assertEqual(writer.call("SET", "large", f"{i}".encode() * (1 << 18)), b"+OK\r\n")
        self.gate_process.send_signal(signal.SIGCONT)
        said = wire.reply()
        if said == invalidation(b"k"):  # the gate had this change before it stopped
            said = wire.reply()
        self.assertEqual(said, invalidation(None))
        self.assertEqual(wire.call("GET", "k"), b"$1\r\n2\r\n")
        writer.call("SET", "k", 3)
        self.assertEqual(wire.reply(), invalidation(b"k"))


class MemoryTest(redis_pair.TestCase):
    def test_a_server_without_a_log(self):
        self.memory_server()
        self.gate()
        wire = self.wire()
        self.assertIn(b"-ERR CLIENT TRACKING: the server does not show its changes", wire.call(*ON))
        self.assertIn(b"off", wire.call(*INFO))


class CacheTest(Base):
    """Clients that cache values beside writers. Once all is quiet, no value differs from the store."""

    KEYS = [f"k{i}" for i in range(8)]

    def write(self, seed):
        wire, some = self.connected(), random.Random(seed)
        for i in range(1500):
            key = some.choice(self.KEYS)
            wire.call(*some.choice((("SET", key, f"{seed}-{i}"), ("DEL", key), ("MSET", key, i, some.choice(self.KEYS), i))))

    def test_no_value_is_stale(self):
        clients = [self.cache(*options) for options in ((), ("BCAST",), ("OPTOUT",), ("NOLOOP",))]
        writers = [threading.Thread(target=self.write, args=(seed,)) for seed in range(2)]
        for thread in writers:
            thread.start()
        some = random.Random(7)
        while any(thread.is_alive() for thread in writers):
            for client in clients:
                self.read(client, [some.choice(self.KEYS) for _ in range(some.randrange(1, 40))])
        for thread in writers:
            thread.join()
        for key in self.KEYS:  # in the order of the changes, so behind all of them
            harness.kvctl(self.address, "put", f"end of {key}", "1")
        wire = self.connected()
        for client in clients:
            self.settle(client)
            self.assertTrue(client[1])
            for key, value in client[1].items():
                self.assertEqual(value, wire.call("GET", key), (key, client[2]))

    def cache(self, *options):
        return self.tracking(*options), {}, options

    def take(self, client):
        """Returns a reply; invalidations before it change the cache."""
        wire, values, _ = client
        while (said := wire.reply()).startswith(b">"):
            key = said.split(b"\r\n")[-2].decode()
            values.clear() if key == "_" else values.pop(key, None)
        return said

    def read(self, client, keys):
        client[0].send(b"".join(redis_pair.request("GET", key) for key in keys))
        for key in keys:
            client[1][key] = self.take(client)

    def settle(self, client):
        """Returns when all changes up to now were shown to the client."""
        wire, values, options = client
        if "BCAST" in options:
            while True:
                said = wire.reply()
                key = said.split(b"\r\n")[-2].decode()
                values.pop(key, None)
                if key == f"end of {self.KEYS[-1]}":
                    return self.read(client, self.KEYS[:1])
        wire.send(redis_pair.request("GET", "mark"))
        self.take(client)
        harness.kvctl(self.address, "put", "mark", "1")
        while (said := wire.reply()) != invalidation(b"mark"):
            values.pop(said.split(b"\r\n")[-2].decode(), None)
        return self.read(client, self.KEYS[:1])


if __name__ == "__main__":
    unittest.main()
