#!/usr/bin/env python3
"""formats.py itself: it must be able to fail."""

import pathlib
import tempfile
import unittest

import formats

HEADER = """
inline constexpr std::size_t kUnit = 16;
inline constexpr std::size_t kSize = std::size_t{1} << 20;  // = 5;
inline constexpr std::size_t kCount = 2;
inline constexpr std::size_t kEach = kSize / sizeof(Head);
inline constexpr std::size_t kOther = Size(1);
struct alignas(64) Head {
  std::uint64_t word;  // std::uint64_t gone;
  std::uint32_t half;
  std::uint32_t more[3];
  std::array<std::uint64_t, kCount> words;
};
"""
CONSTANTS = "| constant | value | meaning |\n|---|---|---|\n| `kUnit` | 16 | a unit |\n| `kSize` | 1,048,576 | all |\n"
HEAD = (
    "| offset | bytes | `Head` |\n|---|---|---|\n| 0 | 8 | `word` |\n| 8 | 4 | `half` |\n| 12 | 12 | `more` |\n"
    "| 24 | 16 | `words` |\n"
)


class FormatsTest(unittest.TestCase):
    def faults(self, page):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            for name, text in {formats.PAGE: page, f"{formats.HEADERS}/a.h": HEADER}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return [fault.removeprefix(f"{formats.PAGE}:") for fault in formats.check(root)]

    def test_a_right_page_has_no_faults(self):
        self.assertEqual(self.faults(f"{CONSTANTS}\n| bits | contents |\n|---|---|\n| 1 | one |\n\n{HEAD}"), [])
        self.assertEqual(self.faults("| constant | value |\n|---|---|\n| `kEach` | 26,214 |\n"), [])

    def test_each_fault_is_found(self):
        for page, fault in {
            CONSTANTS.replace("16 |", "17 |"): "3: `kUnit` is 16, not 17",
            CONSTANTS.replace("1,048,576", "1,048"): "4: `kSize` is 1,048,576, not 1,048",
            CONSTANTS.replace("kUnit", "kGone"): f"3: kGone is no constant of {formats.HEADERS}",
            CONSTANTS.replace("kUnit", "kOther"): "3: cannot evaluate Size(1)",
            HEAD.replace("| 8 | 4", "| 4 | 4"): "4: Head has no field half of 4 bytes at 4",
            HEAD.replace("12 | 12", "12 | 16"): "5: Head has no field more of 16 bytes at 12",
            HEAD.replace("| 8 | 4 | `half` |\n", ""): "3: the field half of Head is missing",
            HEAD.replace("Head", "Tail"): f"3: Tail is no struct of {formats.HEADERS}",
            "# Empty\n": "1: has no figures to compare",
        }.items():
            with self.subTest(fault=fault):
                self.assertEqual(self.faults(page), [fault])


if __name__ == "__main__":
    unittest.main()
