#!/usr/bin/env python3
"""generate.py itself: its output for good tables, and its errors for bad ones."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import generate

SOURCE = """\
int Twice(int x) {
  if (x < 0) return 0;
  Log(x);
  return 2 * x;
}
"""
GOOD = """\
[[mutant]]
name = "negative_is_doubled"
file = "store/twice.cc"
old = 'if (x < 0) return'
new = 'if (x < 0 && !MUTANT(negative_is_doubled)) return'
killed_by.store = "TwiceTest.*:*Negative*"
killed_by.crash = { cuts = 100, breaks = ["H2", "H3"] }
killed_by.simulation = { finds = ["no order of these"] }
"""
SHARED = """\
[[mutant]]
name = "is_tripled"
file = "store/twice.cc"
old = '2 * x'
new = '(MUTANT(is_tripled) ? 3 : MUTANT(is_kept) ? 1 : 2) * x'
killed_by.store = "TwiceTest.*"

[[mutant]]
name = "is_kept"
shares_text_of = "is_tripled"
killed_by.conformance = "Twice.*"
"""
OLD = "old = 'if (x < 0) return'"
HEADER = """\
[[mutant]]
name = "half_is_whole"
file = "client/half.h"
old = 'x / 2'
new = '(MUTANT(half_is_whole) ? x : x / 2)'
killed_by.conformance = "Half.*"
"""


GATE = """\
[[mutant]]
name = "all_are_let_in"
file = "tools/kvgate/door.cc"
old = 'x / 2'
new = '(MUTANT(all_are_let_in) ? x : x / 2)'
killed_by.gate = "door_test.DoorTest.test_strangers"
"""


class GenerateTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "root").resolve()
        self.out = self.root.parent / "out"
        self.write("store/twice.cc", SOURCE)

    def write(self, file, text):
        path = self.root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_it(self, table, *options):
        self.write(f"{generate.TABLES}/store.toml", table)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = generate.main([*options, str(self.root), str(self.out)])
        return status, said.getvalue()

    def make(self, table):
        self.assertEqual(self.run_it(table), (0, ""))
        paths = [path for path in self.out.rglob("*") if path.is_file()]
        return {path.relative_to(self.out).as_posix(): path.read_text() for path in paths}

    def fails(self, table, *words):
        status, said = self.run_it(table)
        self.assertEqual(status, 1, said)
        for expected in words:
            self.assertIn(expected, said)
        self.assertFalse(self.out.exists(), "it wrote in spite of the error")

    def test_a_copy_has_the_switch_and_its_declaration(self):
        made = self.make(GOOD)["include/store/twice.cc"]
        self.assertIn("extern Mutant negative_is_doubled;", made)
        self.assertIn('#include "tests/mutation/mutant.h"\n', made)
        self.assertTrue(made.endswith(SOURCE.replace("(x < 0)", "(x < 0 && !MUTANT(negative_is_doubled))")))

    def test_all_switches_are_defined(self):
        made = self.make(GOOD + SHARED)["mutants.cc"]
        for name in "negative_is_doubled", "is_tripled", "is_kept":
            self.assertIn(f'Mutant {name}{{"{name}"}};', made)
            self.assertIn(f"&{name},", made)

    def test_each_suite_of_a_mutant_is_a_test(self):
        made = self.make(GOOD + SHARED)["mutants.cmake"].splitlines()
        name = "negative_is_doubled"
        for expected in (
            f'mutation_in_program(store {name}.store {name} "TwiceTest.*:*Negative*")',
            f'mutation_in_crash({name}.crash {name} 100 1G "H2" "H3")',
            f'mutation_in_simulation({name}.simulation {name} "no order of these")',
            'mutation_in_program(conformance is_kept is_kept "Twice.*")',
        ):
            self.assertIn(expected, made)
        self.assertIn('set(MUTATION_FILTER_store "TwiceTest.*:*Negative*")', made)

    def test_the_gate_has_its_own_sources_and_suite(self):
        self.write("tools/kvgate/door.cc", "int Half(int x) { return x / 2; }\n")
        made = self.make(GATE)["mutants.cmake"]
        self.assertIn('mutation_in_gate(all_are_let_in all_are_let_in "door_test.DoorTest.test_strangers")', made)
        self.assertIn(f'set(MUTATED_tools_kvgate "{self.out}/include/tools/kvgate/door.cc")', made)
        self.assertIn("set(MUTATED_store)", made)

    def test_a_mutant_of_another_tool_has_no_program(self):
        self.fails(GATE.replace("kvgate/", "kvctl/"), "tools/kvctl/door.cc is no source of")

    def test_what_stays_the_same_is_not_written(self):
        self.make(GOOD)
        before = {path: path.stat().st_mtime_ns for path in self.out.rglob("*") if path.is_file()}
        self.make(GOOD)
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in before})

    def test_a_copy_without_mutants_is_removed(self):
        self.write("client/half.h", "inline int Half(int x) { return x / 2; }\n")
        self.assertIn("include/client/half.h", self.make(GOOD + HEADER))
        self.assertNotIn("include/client/half.h", self.make(GOOD))

    def test_a_check_finds_what_is_not_up_to_date(self):
        self.make(GOOD)
        self.assertEqual(self.run_it(GOOD, "--check"), (0, ""))
        self.write("store/twice.cc", SOURCE + "int more;\n")
        status, said = self.run_it(GOOD, "--check")
        self.assertEqual(status, 1)
        self.assertIn("twice.cc is not up to date; configure the build again", said)

    def test_all_that_includes_a_mutated_header_is_compiled_with_it(self):
        self.write("client/half.h", "inline int Half(int x) { return x / 2; }\n")
        self.write("client/quarter.h", '#include "client/half.h"\n')
        self.write("client/user.cc", '#include "client/quarter.h"\n')
        self.write("client/other.cc", "#include <half.h>\n")
        self.write("tests/conformance/half_test.cc", '#include "client/half.h"\n')
        made = self.make(HEADER)
        self.assertIn("MUTANT(half_is_whole)", made["include/client/half.h"])
        self.assertIn(f'set(MUTATED_client "{self.root}/client/user.cc")', made["mutants.cmake"])
        test = f"{self.root}/tests/conformance/half_test.cc"
        self.assertIn(f'set(MUTATED_HEADER_TESTS "{test}")', made["mutants.cmake"])

    def test_a_header_that_would_be_compiled_in_two_ways_is_an_error(self):
        self.write("client/half.h", "inline int Half(int x) { return x / 2; }\n")
        self.write("client/user.cc", '#include "client/half.h"\n')
        self.write("rdma/user.cc", '#include "client/half.h"\n')
        self.fails(HEADER, "client/half.h is in mutated and other sources of the program of conformance")

    def test_a_header_that_is_included_without_its_folder_is_an_error(self):
        self.write("client/half.h", "inline int Half(int x) { return x / 2; }\n")
        self.write("client/half.cc", '#include "half.h"\n')
        self.fails(HEADER, "client/half.cc includes half.h without its folder")

    def test_what_is_wrong_with_old_and_new(self):
        self.fails(GOOD.replace(OLD, "old = 'if (x < 1) return'"), "`old` stands 0 times in store/twice.cc, not once",
                   "mutants/store.toml: mutant negative_is_doubled")
        self.fails(GOOD.replace(OLD, "old = 'x'"), "`old` stands 4 times")
        self.fails(GOOD.replace(OLD, "old = ''"), "`old` stands 0 times")
        self.fails(GOOD.replace("MUTANT(negative_is_doubled)", "MUTANT(negative)"),
                   "does not mention MUTANT(negative_is_doubled)", "mentions MUTANT(negative), which does not share")

    def test_texts_that_overlap(self):
        same = GOOD.replace("negative_is_doubled", "another")
        self.fails(GOOD + same, "overlaps")
        second = same.replace(OLD, "old = '< 0) return 0;'")
        self.fails(GOOD + second, "another: its `old` overlaps that of negative_is_doubled in store/twice.cc")

    def test_what_is_wrong_with_an_entry(self):
        self.fails(GOOD.replace("store/twice.cc", "store/thrice.cc"), "there is no store/thrice.cc")
        self.fails(GOOD.replace("store/twice.cc", "tests/twice.cc"), "tests/twice.cc is no source of store")
        self.fails(GOOD + GOOD, "mutant negative_is_doubled: is also in tests/mutation/mutants/store.toml")
        self.fails(GOOD.replace("negative_is_doubled", "Negative"), "name: must be lower-case")
        self.fails(GOOD.replace("file =", "fil ="), "lacks file", "fil: is unknown here")
        self.fails(GOOD.replace(OLD, "old = 1"), "old: is not a string")
        self.fails(GOOD + "nobody = 1\n", "nobody: is unknown here")

    def test_what_is_wrong_with_suites(self):
        without = "".join(line for line in GOOD.splitlines(True) if "killed_by" not in line)
        self.fails(without, "names no suite that must notice it")
        self.fails(without + 'killed_by.nobody = "*"\n', "killed_by.nobody: no such suite; there are store")
        self.fails(without + "killed_by.store = 1\n", "killed_by.store: is not a filter")
        self.fails(without + "killed_by.store = 'a b'\n", "killed_by.store: is not a filter")
        self.fails(without + "killed_by.crash = { cuts = 1 }\n", "killed_by.crash: needs breaks")
        self.fails(without + 'killed_by.crash = { breaks = ["H2"], cut = 1 }\n', "killed_by.crash.cut: is")
        self.fails(without + 'killed_by.simulation = { finds = ["$x"] }\n', "'$x', which is no plain text")
        self.fails(without + 'killed_by.guest = "*"\n', "has no mutated source of store/twice.cc")

    def test_what_is_wrong_with_a_shared_text(self):
        self.fails(SHARED.replace('_of = "is_tripled"', '_of = "nobody"'), "no mutant nobody has a text")
        self.fails(SHARED.replace(": MUTANT(is_kept) ? 1 ", ""), "does not mention MUTANT(is_kept)")
        self.fails(SHARED + 'file = "store/twice.cc"\n', "file: is unknown here")

    def test_tables_that_are_none(self):
        self.fails("[[mutant]\n", "store.toml: is not TOML")
        self.fails("[other]\n", "has other; it may have [[mutant]] only")
        self.fails("", "has no mutant")

    def test_wrong_usage(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(generate.main([]), 64)


if __name__ == "__main__":
    unittest.main()
