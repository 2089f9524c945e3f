#!/usr/bin/env python3
"""errors.py itself: it must be able to fail."""

import pathlib
import tempfile
import unittest

import errors


class ErrorsTest(unittest.TestCase):
    def check(self, code, *expected, name="store/a.cc"):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory).resolve()
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text(code, encoding="utf-8")
            self.assertEqual([fault.split(": ", 1)[1] for fault in errors.check(root)], list(expected))

    def test_good_texts_have_none(self):
        self.check('return absl::NotFoundError("scan: the cursor is closed; start a new scan");\n')
        self.check('return absl::InternalError(absl::StrCat("key: it has ", size, " bytes"));\n')
        self.check('return absl::InternalError(absl::StrCat(name, ": it is closed"));\n')
        self.check('return absl::InternalError(absl::StrCat(status.message(), "; try again"));\n')
        self.check('return absl::NotFoundError("no such key");\n')
        self.check('return absl::AlreadyExistsError("the key exists");\n')
        self.check('return absl::InvalidArgumentError("it is empty");\n')
        self.check('return absl::InvalidArgumentError(status.message());\n')

    def test_an_operation_is_missing(self):
        self.check('return absl::NotFoundError("it: closed");  // no colon here\n')
        self.check('return absl::NotFoundError("the cursor is closed");\n', '"the cursor is closed" has no operation before its fault')
        self.check(
            'return absl::AbortedError(absl::StrCat(\n    "a key of ", size,  // why: this\n    " bytes"));\n',
            '"a key of {} bytes" has no operation before its fault',
        )
        self.check(
            'auto a = absl::InternalError("it: a" " b"); auto b = absl::InternalError("lost");\n',
            '"lost" has no operation before its fault',
        )

    def test_words_and_capitals(self):
        self.check('auto a = absl::AbortedError("Scan: closed");\n', '"Scan: closed" begins with a capital letter')
        self.check('auto a = absl::AbortedError("TLS: closed");\n')
        self.check('auto a = absl::AbortedError("get: no room");\n', '"get: no room" has the word "room": write "space"')
        self.check('auto a = absl::AbortedError("put: refused");\n', '"put: refused" has the word "refused": write "reject"')

    def test_tests_are_no_product(self):
        self.check('auto a = absl::AbortedError("Closed");\n', name="tests/a.cc")


if __name__ == "__main__":
    unittest.main()
