"""The manual pages say what the programs and remora.h do, no more and no less."""

import pathlib
import re
import subprocess
import unittest

import harness

ROOT = pathlib.Path(__file__).parents[2]
PAGES = {path.name: path.read_text() for path in sorted((ROOT / "docs/man").iterdir())}
SECTIONS = ["NAME", "SYNOPSIS", "ARGUMENTS", "DESCRIPTION", "RETURN VALUE", "NOTES", "SEE ALSO"]
COMMANDS = ["get", "exists", "put", "append", "incr", "delete", "touch", "persist", "ttl", "scan", "watch", "count", "delete_all",
            "export", "import", "backup", "backups", "restore", "check", "ping", "create_token", "size", "stats", "config", "promote", "cluster", "top",
            "doctor"]  # fmt: skip


def plain(page):
    """A page's text without its requests and font changes."""
    return re.sub(r"\\f[A-Z]|\\&", "", page).replace("\\-", "-").replace('"', "")


def help_of(program, *command):
    run = subprocess.run(
        [harness.program(program), *command, "--help"], capture_output=True, check=True, text=True
    )  # fmt: skip
    return run.stdout


def flags_in(text):
    return set(re.findall(r"(?<![\w-])(--[a-z][a-z_-]*[a-z]|-[A-Za-z])(?![\w-])", text))


def in_options(text):
    """The flags at the beginnings of lines of a help text."""
    heads = [line.split("  ")[1] if line.startswith("  ") else "" for line in text.splitlines()]
    return set().union(*(flags_in(head.replace(",", " ")) for head in heads if head.startswith("-")))


def exit_codes_of_page(page):
    values = re.search(r"\.SH RETURN VALUE\n(.*?)\.SH", page, re.DOTALL).group(1)
    return {int(code) for code in re.findall(r"^\.(?:B |IP \\fB)(\d+)(?:\\fP)?$", values, re.MULTILINE)}


class ManualTest(unittest.TestCase):
    def test_pages_are_formed_as_others_are(self):
        for name, page in PAGES.items():
            with self.subTest(name):
                title, section = re.match(r"\.TH (\S+) (\d) ", page).groups()
                self.assertEqual(name, f"{title.lower()}.{section}")
                found = re.findall(r"^\.SH (.+)$", page, re.MULTILINE)
                self.assertEqual(found, sorted(found, key=lambda section: self.place_of(section)))
                self.assertLessEqual({"NAME", "DESCRIPTION", "SEE ALSO"}, set(found))
                if section != "7":
                    self.assertLessEqual({"SYNOPSIS", "ARGUMENTS", "RETURN VALUE"}, set(found))
                groff = subprocess.run(
                    ["groff", "-man", "-ww", "-z", "-Tutf8", ROOT / "docs/man" / name], capture_output=True, check=True
                )
                self.assertEqual(groff.stderr, b"")

    def place_of(self, section):
        # SYNOPSIS, ARGUMENTS before DESCRIPTION or behind it: both are usual for programs.
        return {"ARGUMENTS": 2, "DESCRIPTION": 2}.get(section, SECTIONS.index(section))

    def test_pages_that_are_seen_also_exist(self):
        others = {"fork", "setrlimit", "rdma_cm", "rdma_reg_msgs"}
        names = {name: self.names_of(page) for name, page in PAGES.items()}
        for name, page in PAGES.items():
            for seen, section in re.findall(r"^\.BR ([a-z_]+) \((\d)\)", page, re.MULTILINE):
                with self.subTest(page=name, seen=seen):
                    there = any(seen in known and other.endswith(section) for other, known in names.items())
                    there = there or f"{seen}.{section}" in PAGES
                    self.assertTrue(there or seen in others)

    def names_of(self, page):
        return re.search(r"\.SH NAME\n(.*?) \\- ", page).group(1).split(", ")

    def test_options(self):
        for program, section, helps in (
            ("kvserver", 8, [help_of("kvserver")]),
            ("kvbench", 1, [help_of("kvbench")]),
            ("kvgate", 1, [help_of("kvgate")]),
            ("kvctl", 1, [help_of("kvctl"), *(help_of("kvctl", command) for command in COMMANDS)]),
        ):
            with self.subTest(program):
                options = set().union(*(in_options(text) for text in helps))
                self.assertIn("--help", options)
                page = plain(PAGES[f"{program}.{section}"])
                own = flags_in(re.sub(r"^\.BR? .*\(\d\).*$", "", page, flags=re.MULTILINE))
                self.assertEqual(own, options)

    def test_sizes(self):
        """Pages and helps say what a size is in the words of the one parser."""
        header = (ROOT / "tools/command_line/number_text.h").read_text()
        size = re.search(r'kSizeText\[\] =\s+"(.*)";', header).group(1)
        for name in ("kvserver.8", "kvbench.1"):
            self.assertIn(size, " ".join(plain(PAGES[name]).split()), name)
        self.assertIn(size, " ".join(help_of("kvserver").split()))
        self.assertIn(size, " ".join(help_of("kvbench").split()))

    def test_commands_of_kvctl(self):
        page = PAGES["kvctl.1"]
        commands = re.search(r"\.SS Commands\n(.*?)\.SH", page, re.DOTALL).group(1)
        self.assertEqual(re.findall(r"^\.B ([a-z_]+)", commands, re.MULTILINE), COMMANDS)
        listed = re.search(r"Commands:\n(.*?)\n\n", help_of("kvctl"), re.DOTALL).group(1)
        self.assertEqual(re.findall(r"^  ([a-z_]+)", listed, re.MULTILINE), COMMANDS)

    def test_exit_statuses(self):
        kvctl = re.search(r"Exit codes:\n(.*)", help_of("kvctl"), re.DOTALL).group(1)
        self.assertEqual(
            exit_codes_of_page(PAGES["kvctl.1"]), {int(code) for code in re.findall(r"^ +(\d+)  ", kvctl, re.MULTILINE)}
        )
        for program, section in (("kvserver", 8), ("kvbench", 1), ("kvgate", 1)):
            text = re.search(r"Exit status:(.*)", help_of(program), re.DOTALL).group(1)
            codes = {int(code) for found in re.findall(r"(?:^|[;,]) ?\n? *(\d+) |\n +(\d+)  ", text) for code in found if code}
            self.assertEqual(exit_codes_of_page(PAGES[f"{program}.{section}"]), codes, program)

    def test_metrics(self):
        """Two documents have a table that is made from the registry of metrics."""
        run = subprocess.run([ROOT / "tools/metrics-pages", "--check"], capture_output=True, check=False, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))

    def test_prototypes(self):
        header = "".join(path.read_text() for path in sorted((ROOT / "client/c").glob("remora*.h")))
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
        declared = re.findall(r"^[a-z0-9_ ]+\*? ?remora_\w+\([^;]*\);", header, re.MULTILINE)
        self.assertGreater(len(declared), 25)

        def tokens(text):
            return " ".join(re.findall(r"\w+|\S", text))

        shown = {}
        for name, page in PAGES.items():
            for prototype in re.findall(r'^\.B "(.*;)"$', page, re.MULTILINE):
                function = re.search(r"remora_\w+(?=\()", prototype).group(0)
                self.assertNotIn(function, shown)
                shown[function] = tokens(prototype)
                self.assertIn(function, self.names_of(page), name)
        self.assertEqual(sorted(shown.values()), sorted(tokens(prototype) for prototype in declared))
        codes = set(re.findall(r"^  (REMORA_\w+) =", header, re.MULTILINE))
        bodies = (page.split("\n", 1)[1] for name, page in PAGES.items() if name.endswith(".3"))
        said = set(re.findall(r"REMORA_[A-Z_]+", "".join(bodies)))
        self.assertLessEqual(codes, said)
        self.assertLessEqual(said, set(re.findall(r"REMORA_[A-Z_]+", header)))


if __name__ == "__main__":
    unittest.main()
