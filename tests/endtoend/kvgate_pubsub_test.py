"""Channels and keyspace notifications of kvgate, beside those of a real Redis."""

import pathlib
import random
import subprocess
import unittest

import harness
import redis_pair

MIB = 1 << 20
SETTING = "notify-keyspace-events"


class Base(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def start(self):
        self.server_process = self.logged_server()
        self.served = self.gate("--threads=2", "--timeout=10000")

    def connected(self, address=None, protocol=2):
        wire = self.wire(address)
        if protocol == 3:
            wire.call("HELLO", 3)
        return wire

    def on_both(self, dialogue):
        """Has the same dialogue with Redis and the gate, in both protocols; their bytes are the same."""
        theirs = self.redis()
        for protocol in (2, 3):
            expected, got = (dialogue(lambda path=path: self.connected(path, protocol)) for path in (theirs, self.gate_path))
            self.assertEqual(got, expected)
            self.assertNotEqual(got, [])

    def subscriber(self, *words, protocol=2):
        wire = self.connected(protocol=protocol)
        wire.send(redis_pair.request(*words))
        for _ in words[1:]:
            self.assertIn(b"subscribe", wire.reply())
        return wire


def notifications(wire, writer):
    """Returns what a subscriber gets after some writes."""
    writer.call("SET", "a", 1)
    writer.call("MSET", "a", 2, "b", 3)
    writer.call("DEL", "a", "b")
    return [wire.reply() for _ in range(5 * 2)]


class NotificationTest(Base):
    def test_patterns(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [writer.call("CONFIG", "SET", SETTING, "KEA"), writer.call("CONFIG", "GET", SETTING)]
            said.append(wire.call("PSUBSCRIBE", "__key*__:*"))
            said += notifications(wire, writer)
            # None while the flags are empty: the next messages are those of a later write.
            said.append(writer.call("CONFIG", "SET", SETTING, ""))
            writer.call("SET", "silent", 1)
            said.append(writer.call("CONFIG", "SET", SETTING, "KEA"))
            writer.call("SET", "loud", 1)
            said += [wire.reply() for _ in range(2)]
            said += [wire.call("PUNSUBSCRIBE"), wire.call("GET", "loud")]
            return said

        self.on_both(dialogue)

    def test_classes(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [wire.call("PSUBSCRIBE", "__key*@0__:*"), wire.call("SUBSCRIBE", "end")]
            # The last write before a change of the flags is either awaited, or shown by none of the later flags.
            for flags, count in (("KEA", 8), ("Kg", 2), ("Eg", 2), ("K$", 2), ("E$", 2), ("Klshzxetdm", 0), ("g$x", 0)):
                said.append(writer.call("CONFIG", "SET", SETTING, flags))
                for key in ("a", "b"):
                    writer.call("SET", key, flags)
                    writer.call("DEL", key)
                said += [wire.reply() for _ in range(count)]
                said += [writer.call("PUBLISH", "end", flags), wire.reply()]
            return said

        self.on_both(dialogue)

    def test_channels(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            writer.call("CONFIG", "SET", SETTING, "KEA")
            said = [wire.call("SUBSCRIBE", "__keyspace@0__:a"), wire.call("SUBSCRIBE", "__keyevent@0__:del")]
            for words in (("SET", "b", 1), ("SET", "a", 1), ("DEL", "b"), ("MSET", "b", 1, "a", 1), ("DEL", "a")):
                writer.call(*words)
            said += [wire.reply() for _ in range(5)]
            return said

        self.on_both(dialogue)

    def test_flags_are_read_as_by_redis(self):
        theirs, ours = self.wire(self.redis()), self.wire()
        letters = "KEg$lshzxetdmnA"
        some = random.Random(1)
        texts = [*letters, "", "KEA", "q", "KEq", "K E", "ka", "g$lshzxetd", b"K\x00q"]
        texts += ["".join(some.sample(letters[:-1], some.randrange(2, 14))) for _ in range(100)]
        for text in texts:
            for words in (("SET", SETTING, text), ("GET", SETTING)):
                self.assertEqual(ours.call("CONFIG", *words), theirs.call("CONFIG", *words), (text, words))
        for words in (("CONFIG", "SET", SETTING), ("CONFIG", "SET", SETTING, "K", SETTING, "E"), ("CONFIG", "GET", "NOTIFY-*")):
            self.assertEqual(ours.call(*words), theirs.call(*words), words)
        # All or nothing.
        ours.call("CONFIG", "SET", SETTING, "KEA")
        self.assertTrue(ours.call("CONFIG", "SET", SETTING, "", "maxclients", "x").startswith(b"-ERR CONFIG SET failed"))
        self.assertIn(b"AKE", ours.call("CONFIG", "GET", SETTING))

    def test_writes_of_other_clients(self):
        self.assertEqual(self.wire().call("CONFIG", "SET", SETTING, "E$g"), b"+OK\r\n")
        wires = [self.subscriber("SUBSCRIBE", "__keyevent@0__:set", "__keyevent@0__:del", protocol=3) for _ in range(3)]
        harness.kvctl(self.address, "put", "native", "v")
        harness.kvctl(self.address, "delete", "native")
        for wire in wires:
            self.assertEqual(wire.reply(), b">3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$6\r\nnative\r\n")
            self.assertEqual(wire.reply(), b">3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:del\r\n$6\r\nnative\r\n")

    def test_a_server_that_is_killed_and_comes_back(self):
        writer = self.wire()
        writer.call("CONFIG", "SET", SETTING, "E$")
        wire = self.subscriber("PSUBSCRIBE", "*")
        writer.call("SET", "before", 1)
        self.assertIn(b"\r\nbefore\r\n", wire.reply())
        self.server_process.kill()
        self.logged_server()
        # No message is lost, whether the gate is connected again or not.
        harness.kvctl(self.address, "put", "after", "v")
        self.assertIn(b"\r\nafter\r\n", wire.reply())

    def test_it_ends_without_a_server(self):
        self.wire().call("CONFIG", "SET", SETTING, "KEA")
        self.subscriber("PSUBSCRIBE", "*")
        self.server_process.kill()
        self.assertEqual(self.served.stop()[0], 0)


class ChannelTest(Base):
    def test_publishing(self):
        def dialogue(connect):
            wire, other, writer = connect(), connect(), connect()
            said = [wire.call("SUBSCRIBE", "news"), wire.call("PSUBSCRIBE", "n?ws"), other.call("PSUBSCRIBE", "[a-n]*")]
            said += [writer.call("PUBLISH", "news", b"\x00\r\n"), writer.call("PUBLISH", "none", ""), writer.call("PUBLISH", "zero", "")]
            said += [wire.reply(), wire.reply(), other.reply(), other.reply()]
            said += [writer.call("PUBSUB", *words) for words in (
                ("CHANNELS",), ("CHANNELS", "n*"), ("CHANNELS", "x"), ("NUMSUB", "news", "none"), ("NUMSUB",), ("NUMPAT",),
                ("NUMPAT", "x"), ("CHANNELS", "a", "b"), ("NOTHING",))]  # fmt: skip
            said += [writer.call("PUBLISH", "one"), writer.call("SUBSCRIBE"), writer.call("PSUBSCRIBE")]
            return said

        self.on_both(dialogue)

    def test_a_subscriber_of_resp2_takes_few_commands(self):
        def dialogue(connect):
            wire = connect()
            said = [wire.call("PING"), wire.call("SUBSCRIBE", "c")]
            for words in (("GET", "a"), ("PING",), ("PING", "text"), ("CONFIG", "GET", "save"), ("HELLO", "3"), ("MULTI",), ("nothing",)):
                said.append(wire.call(*words)[:3 if words[0] == "HELLO" else None])
            return said

        theirs = self.redis()
        self.assertEqual(dialogue(self.connected), dialogue(lambda: self.connected(theirs)))

    def test_the_end_of_subscriptions(self):
        def dialogue(connect):
            wire = connect()
            said = [wire.call("UNSUBSCRIBE"), wire.call("PUNSUBSCRIBE", "never")]
            wire.send(redis_pair.request("SUBSCRIBE", "a", "b", "b"))
            said += [wire.reply() for _ in range(3)]
            said += [wire.call("PSUBSCRIBE", "p*"), wire.call("UNSUBSCRIBE", "a"), wire.call("UNSUBSCRIBE")]
            said += [wire.call("PUNSUBSCRIBE", "p*"), wire.call("SET", "k", "v"), wire.call("PING")]
            said += [wire.call("SUBSCRIBE", "a"), wire.call("RESET"), wire.call("GET", "k"), wire.call("PUBLISH", "a", "x")]
            return said

        self.on_both(dialogue)

    def test_channels_of_shards(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            said = [wire.call("SUNSUBSCRIBE"), wire.call("SUNSUBSCRIBE", "never"), wire.call("SSUBSCRIBE", "a")]
            wire.send(redis_pair.request("SSUBSCRIBE", "b", "b"))
            said += [wire.reply(), wire.reply(), wire.call("SUBSCRIBE", "a"), wire.call("PSUBSCRIBE", "*")]
            said += [writer.call("SPUBLISH", "a", b"\x00\r\n"), wire.reply(), writer.call("PUBLISH", "a", "x"), wire.reply(), wire.reply()]
            said += [writer.call("SPUBLISH", "none", "")]
            said += [writer.call("PUBSUB", *words) for words in (
                ("SHARDCHANNELS", "a*"), ("SHARDCHANNELS", "x"), ("SHARDNUMSUB", "a", "none"), ("SHARDNUMSUB",), ("CHANNELS",),
                ("SHARDCHANNELS", "a", "b"), ("NUMSUB", "b"))]  # fmt: skip
            said += [wire.call("UNSUBSCRIBE"), wire.call("SUNSUBSCRIBE", "a"), wire.call("PUNSUBSCRIBE"), wire.call("SUNSUBSCRIBE")]
            said += [wire.call("SET", "k", "v"), wire.call("SSUBSCRIBE", "a"), wire.call("RESET"), writer.call("SPUBLISH", "a", "x")]
            said += [writer.call(*words) for words in (("SSUBSCRIBE",), ("SPUBLISH", "a"), ("SPUBLISH", "a", "b", "c"))]
            return said

        self.on_both(dialogue)

    def test_pipelined_commands_keep_their_order(self):
        wire = self.connected(protocol=3)
        words = [("SET", "k", "v"), ("GET", "k"), ("SUBSCRIBE", "c"), ("GET", "k"), ("UNSUBSCRIBE", "c"), ("GET", "k")]
        wire.send(b"".join(redis_pair.request(*one) for one in words))
        starts = [b"+OK", b"$1\r\nv", b">3\r\n$9\r\nsubscribe", b"$1\r\nv", b">3\r\n$11\r\nunsubscribe", b"$1\r\nv"]
        for start in starts:
            self.assertTrue(wire.reply().startswith(start), start)

    def test_messages_do_not_depend_on_client_reply(self):
        def dialogue(connect):
            wire, writer = connect(), connect()
            wire.send(redis_pair.request("CLIENT", "REPLY", "OFF"))
            said = [wire.call("SUBSCRIBE", "c"), writer.call("PUBLISH", "c", "x"), wire.reply()]
            return said

        self.on_both(dialogue)

    def test_a_connection_that_ends_is_no_subscriber(self):
        wire, writer = self.subscriber("SUBSCRIBE", "c"), self.wire()
        self.assertEqual(writer.call("PUBLISH", "c", "x"), b":1\r\n")
        self.assertIn(b" sub=1 psub=0 ", writer.call("CLIENT", "LIST", "TYPE", "pubsub"))
        self.assertNotIn(b" sub=1 ", writer.call("CLIENT", "LIST", "TYPE", "normal"))
        self.assertIn(b"\r\npubsub_channels:1\r\npubsub_patterns:0\r\n", writer.call("INFO", "stats"))
        wire.close()
        harness.wait_until(lambda: writer.call("PUBLISH", "c", "x") == b":0\r\n", "the gate notices")
        for words in (("PSUBSCRIBE", "c"), ("SSUBSCRIBE", "c")):
            self.subscriber(*words)
        self.assertIn(b" sub=0 psub=0 ssub=1 ", writer.call("CLIENT", "LIST"))
        self.assertIn(b"\r\npubsubshard_channels:1\r\n", writer.call("INFO", "stats"))
        self.assertEqual(writer.call("CLIENT", "KILL", "TYPE", "pubsub"), b":2\r\n")
        harness.wait_until(lambda: writer.call("SPUBLISH", "c", "x") == b":0\r\n", "it is killed")
        harness.wait_until(lambda: writer.call("PUBLISH", "c", "x") == b":0\r\n", "it is killed")

    def test_a_subscriber_that_takes_nothing_is_disconnected(self):
        slow, good, writer = self.subscriber("SUBSCRIBE", "c"), self.subscriber("SUBSCRIBE", "c"), self.wire()
        before, sent = self.served.resident(), 0
        while writer.call("PUBLISH", "c", b"x" * MIB) == b":2\r\n":
            self.assertEqual(len(good.reply()), MIB + len(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1048576\r\n\r\n"))
            sent += 1
            self.assertLess(sent, 40)
        self.assertGreater(sent, 20)
        self.assertLess(self.served.resident() - before, 64 * MIB)
        slow.close()
        code, errors = self.served.stop()
        self.assertEqual(code, 0)
        self.assertIn(b"is disconnected: it did not take its messages", errors)

    def test_within_a_transaction(self):
        wire = self.wire()
        wire.call("MULTI")
        for words in (("SUBSCRIBE", "c"), ("PUBLISH", "c", "x"), ("SSUBSCRIBE", "c"), ("SPUBLISH", "c", "x")):
            self.assertEqual(wire.call(*words), b"-ERR Command not allowed inside a transaction\r\n")
        self.assertTrue(wire.call("EXEC").startswith(b"-EXECABORT"))


class ProgramTest(Base):
    def test_redis_cli(self):
        self.wire().call("CONFIG", "SET", SETTING, "KEA")
        for protocol in ("-2", "-3"):
            cli = subprocess.Popen(
                ["redis-cli", "-s", self.gate_path, protocol, "psubscribe", "__key*"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
            )  # fmt: skip
            self.addCleanup(cli.stdout.close)
            self.addCleanup(cli.wait)
            self.addCleanup(cli.kill)
            self.assertEqual([cli.stdout.readline() for _ in range(3)], [b"psubscribe\n", b"__key*\n", b"1\n"])
            self.wire().call("SET", "key", "v")
            said = [cli.stdout.readline().strip() for _ in range(8)]
            self.assertEqual(said, b"pmessage __key* __keyspace@0__:key set pmessage __key* __keyevent@0__:set key".split())

    def test_python_redis(self):
        # By the interpreter that Debian's package is for.
        program = pathlib.Path(__file__).with_name("kvgate_python_pubsub.py")
        words = ["/usr/bin/python3", "-B", program, self.gate_path]
        run = subprocess.run(words, capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual((run.returncode, run.stdout), (0, b"done\n"), run.stderr)


class SettingTest(redis_pair.TestCase):
    def test_a_server_without_a_log(self):
        self.memory_server()
        self.gate()
        wire = self.wire()
        reply = wire.call("CONFIG", "SET", SETTING, "KEA")
        self.assertTrue(reply.startswith(b"-ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events')"), reply)
        self.assertIn(b"only in memory", reply)
        self.assertEqual(wire.call("CONFIG", "GET", SETTING), b"*2\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n")
        self.assertEqual(wire.call("CONFIG", "SET", SETTING, ""), b"+OK\r\n")
        self.assertIn(b"subscribe", wire.call("SUBSCRIBE", "__keyspace@0__:a"))

    def rejected(self, flags):
        words = [harness.program("kvgate"), f"--listen=redis://{self.gate_path}", f"--server={self.address}"]
        run = subprocess.run([*words, f"--notify_keyspace_events={flags}"], capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.stdout, b"")
        return run.returncode, run.stderr

    def test_the_flag(self):
        self.memory_server()
        code, errors = self.rejected("KEq")
        self.assertEqual(code, 64, errors)
        self.assertIn(b"Ag$lshzxeKEtmdn", errors)
        code, errors = self.rejected("KEA")
        self.assertEqual(code, 73, errors)
        self.assertIn(b"--notify_keyspace_events", errors)
        self.address = f"local://{self.folder}/logged"
        self.logged_server()
        self.gate("--notify_keyspace_events=EA")
        wire = self.wire()
        self.assertIn(b"$2\r\nAE\r\n", wire.call("CONFIG", "GET", SETTING))
        self.assertIn(b"subscribe", wire.call("SUBSCRIBE", "__keyevent@0__:set"))
        self.wire().call("SET", "k", "v")
        self.assertEqual(wire.reply(), b"*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\nk\r\n")

    def test_a_read_only_token(self):
        self.memory_server()
        reader = self.make_token("reader", "read-only")
        self.gate(f"--tokens={self.write('tokens', reader)}")
        wire = self.wire()
        self.assertTrue(wire.call("SUBSCRIBE", "c").startswith(b"-NOAUTH"))
        self.assertEqual(wire.call("AUTH", "reader", reader.split()[2]), b"+OK\r\n")
        for command in ("PUBLISH", "SPUBLISH"):
            self.assertTrue(wire.call(command, "c", "x").startswith(b"-NOPERM"))
        self.assertTrue(wire.call("CONFIG", "SET", SETTING, "").startswith(b"-NOPERM"))
        self.assertIn(b"subscribe", wire.call("SUBSCRIBE", "c"))


if __name__ == "__main__":
    unittest.main()
