#!/usr/bin/env python3
"""reached.py itself: it must be able to fail, and for the right reason."""

import pathlib
import tempfile
import unittest

import reached


class ReachedTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in reached.FOLDERS:
            (self.root / name).mkdir()
        self.write("store/index.h", "#include <vector>\nclass Index {\n  std::vector<int> slots;\n};\n")

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def faults(self):
        return reached.check(self.root)[1]

    def test_accepts_what_a_header_of_ours_brings(self):
        self.write("store/user.cc", '#include "store/index.h"\nstd::vector<int> Find(const Index& index);\n')
        self.assertEqual(self.faults(), [])

    def test_rejects_a_standard_name_whose_header_is_not_reached(self):
        self.write("store/user.cc", '#include "store/index.h"\nstd::string Name();\n')
        self.assertEqual(self.faults(), ["store/user.cc: uses std::string, and does not reach <string>"])

    def test_rejects_a_name_of_abseil_whose_header_is_not_reached(self):
        self.write("store/user.cc", "absl::Status Open();\n")
        self.assertEqual(self.faults(), ["store/user.cc: uses absl::Status, and does not reach <absl/status/status.h>"])

    def test_rejects_a_class_of_ours_whose_header_is_not_reached(self):
        self.write("store/user.cc", "void Find(Index& index);\n")
        self.assertEqual(self.faults(), ["store/user.cc: uses Index, and does not reach store/index.h"])

    def test_rejects_a_function_or_constant_of_ours_whose_header_is_not_reached(self):
        self.write("store/plan.h", "constexpr int kLeast = 3;\nint SizeOf(int count);\nstruct Plan {\n  int Own(int);\n};\n")
        self.write("store/user.cc", "int a = SizeOf(kLeast);\n")
        self.assertEqual(
            self.faults(),
            ["store/user.cc: uses SizeOf, and does not reach store/plan.h", "store/user.cc: uses kLeast, and does not reach store/plan.h"],
        )
        self.write("store/user.cc", '#include "store/plan.h"\nint a = SizeOf(kLeast);\n')
        self.assertEqual(self.faults(), [])
        # A method, and names of the file itself.
        self.write("store/user.cc", "int b = plan.Own(1);\nconstexpr int kLeast = 4;\nint SizeOf(int count) { return kLeast; }\n")
        self.assertEqual(self.faults(), [])

    def test_accepts_what_a_public_header_brings(self):
        for include, place in (("remora/store/index.h", "store/index.h"), ("remora/store.h", "store/store.h")):
            self.write("store/store.h", '#include "store/index.h"\n')
            self.write("examples/first.cc", f"#include <{include}>\nvoid Find(Index& index);\n")
            self.assertEqual(self.faults(), [], place)

    def test_accepts_a_class_that_is_declared(self):
        self.write("store/user.cc", "class Index;\nvoid Find(Index& index);\n")
        self.assertEqual(self.faults(), [])

    def test_ignores_comments_strings_and_members(self):
        self.write("store/user.cc", '// std::string, Index& index\nauto text = "std::map"; int x = a.Index (3);\n')
        self.assertEqual(self.faults(), [])

    def test_ignores_names_of_programs_below_them(self):
        self.write("bench/target.h", "class Target {\n};\n")
        self.write("store/user.cc", "void Find(Target& target);\n")
        self.assertEqual(self.faults(), [])


if __name__ == "__main__":
    unittest.main()
