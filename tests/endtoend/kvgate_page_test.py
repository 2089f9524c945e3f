"""The page about kvgate, COMMAND and HELP name the same commands; all others are unknown, as in Redis."""

import io
import pathlib
import re
import unittest

import redis_pair

PAGE = pathlib.Path(__file__).parents[2] / "docs/guide/redis.md"
# Of "Commands that are not there", some of each row. DUMP and RESTORE have no words of their own.
MISSING = ("DUMP", "RESTORE", "LPUSH", "HSET", "SADD", "ZADD", "XADD", "EVAL", "FUNCTION")


def section(title):
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1]
    return text.split("\n## ")[0]


def commands_of_page():
    """name -> the set of its subcommands, both in lower case."""
    found = {}
    # A point of the list and its further lines, without its title.
    for _, names in re.findall(r"^- ([a-z ]+): ((?:.+\n)(?:  .+\n)*)", section("Commands"), re.MULTILINE):
        names = re.sub(r", and \[.*", "", " ".join(names.split()))
        for group in names.split("; "):
            group = re.sub(r"(?<!\() with .*", "", group)  # options of the commands before
            for name, _, inside in re.findall(r"([A-Z]+)( \(([^)]*)\))?", re.sub(r" 0\b", "", group)):
                found[name.lower()] = {word.lower() for word in re.findall(r"[A-Z][A-Z-]+", inside)}
    return found


def value_of(reply):
    """A reply in RESP2 as lists, numbers and texts."""

    def read(stream):
        line = stream.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [read(stream) for _ in range(int(rest))]
        if kind == b"$":
            return stream.read(int(rest) + 2)[:-2].decode()
        return int(rest) if kind == b":" else rest.decode()

    return read(io.BytesIO(reply))


class PageTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        # Without a cluster, CLUSTER HELP is an error, as in Redis.
        self.gate("--cluster_nodes=redis://localhost:1", "--cluster_announce=redis://localhost:1")

    def ask(self, *words):
        return value_of(self.wire().call(*words))

    def test_the_page_and_the_gate_have_the_same_commands(self):
        names = [entry[0] for entry in self.ask("COMMAND")]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(sorted(commands_of_page()), sorted(names))

    def test_count_info_and_docs_agree(self):
        names = [entry[0] for entry in self.ask("COMMAND")]
        self.assertEqual(self.ask("COMMAND", "COUNT"), len(names))
        self.assertEqual(self.ask("COMMAND", "INFO", *names), self.ask("COMMAND"))
        self.assertEqual(self.ask("COMMAND", "DOCS")[::2], names)
        for name in names:
            self.assertEqual(self.ask("COMMAND", "DOCS", name)[0], name)

    def test_the_page_and_help_have_the_same_subcommands(self):
        of_page = {name: subcommands for name, subcommands in commands_of_page().items() if subcommands}
        sentence = re.search(r"HELP of ([A-Z, and\n]+) lists", section("Commands")).group(1)
        self.assertEqual(sorted(of_page), sorted(name.lower() for name in re.findall("[A-Z]+", sentence)))
        for name, subcommands in of_page.items():
            lines = self.ask(name, "HELP")[1:-2]
            of_help = {line.split()[0].lower() for line in lines if not line.startswith((" ", "("))}
            self.assertEqual(of_help, subcommands, name)

    def test_other_commands_are_unknown_as_in_redis(self):
        theirs, ours = self.wire(self.redis()), self.wire()
        # Redis has these commands. Its words for one that it lacks are the same but for the name.
        for name in MISSING:
            for arguments in ((), ("key",), ("key", "0", "value")):
                unknown = f"NO{name}"
                expected = theirs.call(unknown, *arguments)
                self.assertTrue(expected.startswith(b"-ERR unknown command '"), expected)
                expected = expected.replace(unknown.encode(), name.encode())
                self.assertEqual(ours.call(name, *arguments), expected, name)
            self.assertNotIn(name.lower(), commands_of_page())
        text = section("Commands that are not there")
        for name in ("DUMP", "RESTORE"):
            self.assertIn(name, text)

    def test_a_transaction_with_one_aborts(self):
        wire = self.wire()
        self.assertEqual(wire.call("MULTI"), b"+OK\r\n")
        self.assertIn(b"-ERR unknown command 'DUMP'", wire.call("DUMP", "key"))
        self.assertTrue(wire.call("EXEC").startswith(b"-EXECABORT"))


if __name__ == "__main__":
    unittest.main()
