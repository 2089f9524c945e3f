#!/usr/bin/env python3
"""documents.py itself: it must be able to fail."""

import hashlib
import pathlib
import tempfile
import unittest

import documents

README = "# Title\n\n[page](docs/page.md#a-heading-2)\n"
PAGE = "# Page\n\n## A heading, 2\n\n[home](../README.md) [here](#page) [out](https://example.org/x)\n"


class DocumentsTest(unittest.TestCase):
    def faults(self, readme=README, page=PAGE, **more):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory).resolve()
            for name, text in {"README.md": readme, "docs/page.md": page, **more}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return list(documents.check(root))

    def test_good_pages_have_none(self):
        self.assertEqual(self.faults(), [])
        code = "```\n[x](nowhere.md)\n" + "x" * 120 + "\n```\n\n    [x](nowhere.md)\n\n`[x](nowhere.md)`\n"
        self.assertEqual(self.faults(page=PAGE + code), [])

    def test_each_fault_is_found(self):
        for page, fault in {
            "[x](nowhere.md)\n": "docs/page.md:6: links to nowhere.md, which does not exist",
            "- one\n    [x](nowhere.md)\n": "docs/page.md:7: links to nowhere.md, which does not exist",
            "[x](man/x.1)\n": "docs/page.md:6: links to man/x.1, which tools/docs does not put into the site",
            "## One\n\n### Two\n\n## Three\n\nText.\n": "docs/page.md:8: has nothing below the heading Two",
            "## Last\n": "docs/page.md:6: has nothing below the heading Last",
            "It is fast. Measured on two cores: 1 us.\n": "docs/page.md:6: has measured figures: they belong to "
            "docs/performance",
            "[x](#nothing)\n": "docs/page.md:6: links to #nothing, which has no such heading",
            "[x](../README.md#nothing)\n": "docs/page.md:6: links to ../README.md#nothing, which has no such heading",
        }.items():
            with self.subTest(fault=fault):
                self.assertEqual(self.faults(page=PAGE + page, **{"docs/man/x.1": ".TH x\n", "LICENSE": "Text.\n"}), [fault])

    def test_a_way_through_the_code(self):
        sources = {"store/get.cc": "void Get::Begin() {}\n", "store/get.h": "struct Get {};\n"}
        self.assertEqual(self.faults(page=PAGE + "1. `store/get.cc`: `Get::Begin`\n", **sources), [])
        for page, fault in {
            "`store/put.cc`\n": "6: names store/put.cc, which does not exist",
            "\n    tools/tidy store/get.cc store/put.cc  # two\n": "7: names store/put.cc, which does not exist",
            "1. `store/get.cc`: `Get`,\n   then `Get::End`\n": "6: names End, which no source has",
            "1. `store/get.cc`: `Put`\n\nText.\n": "6: names nothing that store/get has",
        }.items():
            with self.subTest(fault=fault):
                found = self.faults(page=PAGE + page, **sources, **{"rdma/put.cc": "void Put() {}\n"})
                self.assertEqual(found, [f"docs/page.md:{fault}"])

    def test_a_path_from_the_folder_on(self):
        readme = README + "[store](store/README.md)\n"
        sources = {"store/get.h": "", "store/read/point.h": "", "store/read/point.cc": "", "rdma/ring.h": ""}
        page = "# store\n\n`get.h`, `read/`, `read/point.h` with `point.cc`, `read/po*.cc`, `rdma/ring.h`, `build/x.h`, `a.b`"
        self.assertEqual(self.faults(readme=readme, **sources, **{"store/README.md": page + "\n"}), [])
        for text, fault in {
            "`put.h`": "store/README.md:4: names put.h, which does not exist here",
            "`point.cc`, `read/point.h`": "store/README.md:4: names point.cc, which does not exist here",
            "read, `ring.h`": "store/README.md:4: names ring.h, which does not exist here",
            "`write/`": "store/README.md:4: names write/, which does not exist here",
            "`read/pi*.cc`": "store/README.md:4: names read/pi*.cc, which does not exist here",
            "`rdma/wire.h`": "store/README.md:4: names rdma/wire.h, which does not exist",
        }.items():
            with self.subTest(fault=fault):
                found = self.faults(readme=readme, **sources, **{"store/README.md": f"# store\n\n`get.h`, `read/`\n{text}\n"})
                self.assertEqual(found, [fault])

    def test_a_folder_without_a_name(self):
        readme = README + "[store](store/README.md)\n"
        files = {"store/get.h": "", "store/read/point.h": "", "store/README.md": "# store\n\n`get.h`\n"}
        self.assertEqual(self.faults(readme=readme, **files), ["store/README.md:1: does not name read/"])

    def test_a_file_without_its_folder(self):
        sources = {"store/read/point.cc": ""}
        self.assertEqual(self.faults(page=PAGE + "`point.cc`, `redis.conf`, `x.py`\n", **sources), [])
        self.assertEqual(
            self.faults(page=PAGE + "`local_client.cc`\n", **sources),
            ["docs/page.md:6: names local_client.cc, which no folder has"],
        )

    def test_pictures_of_other_sources(self):
        dot = "digraph a {}\n"
        svg = f"<svg><!-- {hashlib.sha256(dot.encode()).hexdigest()} --></svg>\n"
        page = PAGE + "![a](diagrams/a.svg)\n"
        self.assertEqual(self.faults(page=page, **{"docs/diagrams/a.dot": dot, "docs/diagrams/a.svg": svg}), [])
        for files, fault in (
            ({"a.dot": dot + " ", "a.svg": svg}, "a.svg:1: is of another a.dot; run tools/diagrams"),
            ({"a.dot": dot, "a.svg": svg, "b.dot": dot}, "b.dot:1: has no picture; run tools/diagrams"),
            ({"a.svg": svg}, "a.svg:1: has no source a.dot"),
        ):
            found = self.faults(page=page, **{f"docs/diagrams/{name}": text for name, text in files.items()})
            self.assertEqual(found, [f"docs/diagrams/{fault}"])

    def test_an_example_without_a_link(self):
        files = {"examples/README.md": "# Examples\n\n[one](one.cc)\n", "examples/one.cc": "", "examples/two.py": ""}
        self.assertEqual(self.faults(readme=README + "[examples](examples/README.md)\n", **files),
                         ["examples/README.md:1: does not link to two.py"])  # fmt: skip

    def test_a_page_that_no_link_reaches(self):
        self.assertEqual(
            self.faults(**{"docs/lost.md": "# Lost\n"}), ["docs/lost.md:1: no link leads here from README.md"]
        )

    def test_a_readme_that_is_too_long(self):
        self.assertEqual(self.faults(readme=README + "line\n" * 148), ["README.md:151: has more than 150 lines"])


if __name__ == "__main__":
    unittest.main()
