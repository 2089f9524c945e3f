#!/usr/bin/env python3
"""style.py itself: it must be able to fail."""

import pathlib
import tempfile
import unittest

import style

TOO_LONG = "ends a function of 72 lines; 71 at most"


def with_body(head, end, lines):
    return f"{head}\n" + "    G();\n" * lines + f"{end}\n"


BAD = {
    "long.cc": ("int a;\n" * 501, "has more than 500 lines"),
    "open.cc": ("int a;", "has no newline at its end"),
    "tab.cc": ("\tint a;\n", "has a tab"),
    "blank.cc": ("int a; \n", "has blanks at its end"),
    "large.png": ("x" * 60_001, "has 60001 bytes; 60000 at most"),
    "later.cc": ("// TODO: later\n", "is unfinished"),
    "function.cc": (with_body("int F(int a) {", "}", 72), TOO_LONG),
    "head.cc": (with_body("F::F(int a,\n     int b)\n    : a_(a) {", "}", 72), TOO_LONG),
    "test.cc": (with_body("TEST(Suite, Case) {", "}", 72), TOO_LONG),
    "method.h": ("class C {\n" + with_body("  int F() const {", "  }", 72) + "};\n", TOO_LONG),
    "text.cc": (with_body('int F() {\n  G(R"(\n}\ntext)");', "}", 69), TOO_LONG),
    "directive.cc": (with_body("int F() {\n#if A\n// why", "}", 70), TOO_LONG),
}


class StyleTest(unittest.TestCase):
    def test_each_fault_is_found(self):
        with tempfile.TemporaryDirectory() as directory:
            for name, (text, fault) in BAD.items():
                path = pathlib.Path(directory, name)
                path.write_text(text, encoding="utf-8")
                with self.subTest(name=name):
                    self.assertEqual([text for _, text in style.faults_of(path)], [fault])

    def test_good_text_has_none(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "good.cc")
            path.write_text("int a;\n\nint b;  // why\n" * 166, encoding="utf-8")
            self.assertEqual(style.faults_of(path), [])

    def test_short_functions_and_long_classes_are_good(self):
        texts = (
            with_body("int F() {", "}", 71),
            with_body("int F() {", "}", 71) * 2,
            with_body("class C {", "};", 72),
            with_body("const Row kRows[] = {", "};", 72),
            "namespace remora {\n" + with_body("int F(int a);", "}  // namespace remora", 72),
        )
        for text in texts:
            with self.subTest(text=text.split("\n")[0]):
                self.assertEqual(list(style.functions(text, style.MAX_BODY)), [])

    def test_functions_are_listed_with_their_lines(self):
        text = "int F() { return 1; }\n\n" + with_body("int G() {", "}", 3) + with_body("class C {", "};", 5)
        self.assertEqual(list(style.functions(text, 0)), [(7, 3)])

    def test_builds_and_hidden_folders_are_left_out(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for folder in ("build", "build-tsan", ".git", ".ci", "store"):
                (root / folder).mkdir()
                (root / folder / "file").write_text("text\n", encoding="utf-8")
            found = [path.relative_to(root).as_posix() for path in style.files(root)]
        self.assertEqual(found, [".ci/file", "store/file"])


if __name__ == "__main__":
    unittest.main()
