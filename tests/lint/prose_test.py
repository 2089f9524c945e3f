#!/usr/bin/env python3
"""prose.py itself: it must be able to fail."""

import pathlib
import re
import tempfile
import unittest

import prose

LONG = "Word" + " w" * 30 + "."


class ProseTest(unittest.TestCase):
    def faults(self, only=(), **files):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory).resolve()
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
            return list(prose.check(root, only))

    def check(self, name, text, *expected):
        """Expects faults that begin with `expected`: "LINE: TEXT"."""
        found = [fault.removeprefix(f"{name}:") for fault in self.faults(**{name: text})]
        self.assertEqual(len(found), len(expected), found)
        for fault, begin in zip(found, expected):
            self.assertTrue(fault.startswith(begin), f"{fault} does not begin with {begin}")

    def test_good_text_has_none(self):
        self.check("page.md", "# Limits\n\nA client READs. It is fast, e.g. over verbs. See who waits.\n\n- One.\n- Two.\n")
        self.check("page.md", "What is a record? It is a header, a key and a value.\n")
        self.check("a.cc", "// Publishes the record.\nint a = 1;  // of the group\n/// Returns the size.\nint Size();\n")

    def test_begin_is_a_verb(self):
        self.check("page.md", "All keys that begin with it, from the begin on.\n", '1: "the begin": "begin" is a verb')
        self.check("page.8", "Each of them begins.\nSince their begin.\n", '2: "their begin"')

    def test_subjects_of_manual_pages_are_things(self):
        self.check("page.8", ".SH Who may connect\nServes only clients that have a token. See who waits.\n")
        self.check("page.8", "Text.\nWho hangs up is not counted.\n", '2: "Who" as a subject')
        self.check("page.8", "A server serves who has a token; see\n", '1: "who" as a subject')

    def test_sentences_have_at_most_thirty_words(self):
        self.check("page.md", f"Short.\n\nShort. {LONG}\n", "3: a sentence of 31 words")
        self.check("page.md", f"- Short.\n- {LONG}\n", "2: a sentence of 31 words")
        self.check("page.md", f"| cell | {LONG} |\n", "1: a sentence of 31 words")
        self.check("page.md", " ".join(["word"] * 15) + ".\n" + " ".join(["Word"] * 16) + ".\n")
        self.check("page.md", "`" + "c " * 40 + "` is one word.\n")

    def test_a_sentence_goes_on_behind_an_abbreviation(self):
        half = " ".join(["word"] * 16)
        self.check("page.md", f"{half} e.g. \n{half.capitalize()}.\n", "1: a sentence of 33 words")

    def test_lines_of_a_page_have_at_most_100_columns(self):
        wide = "w" * 101
        self.check("page.md", f"{wide}\n", "1: 101 columns")
        for page in (f"| {wide} |\n", f"    {wide}\n"):
            self.check("page.md", page, "1: 105 columns")
        self.check("page.md", f"```\n{wide}\n```\n", "2: 101 columns")

    def test_paragraphs_of_pages_have_at_most_six_lines_and_those_of_comments_eight(self):
        self.check("page.md", "A line.\n" * 7, "1: a paragraph of 7 lines; 6 at most")
        self.check("page.md", "A line.\n" * 6 + "\n" + "A line.\n" * 6)
        self.check("a.cc", "// A line.\n" * 9, "1: a paragraph of 9 lines; 8 at most")
        self.check("a.cc", "// A line.\n" * 8 + "//\n" + "// A line.\n" * 8)

    def test_topics_are_headings_and_not_bold(self):
        self.check("page.md", "# Title\n\n**Topic.** The text.\n\n**Bold** only in\n\n- **A list** may.\n",
                   "3: a topic in bold", "5: a topic in bold")
        self.check("page.md", "The text is\n**bold** inside.\n\n**Alone.**\n")

    def test_who_and_what_are_no_subjects(self):
        for text in ("Who waits polls.", "Good. Whatever it reads is right.", "It polls; who is gone is not asked.",
                     "It says one thing: what it read.", "So what is read is right.", "# What is measured"):
            self.check("page.md", text + "\n", "1: ")
        self.check("page.md", "It returns what it read, to a client who waits.\n")
        self.check("page.md", 'It says "Who waits polls".\n')

    def test_threads_and_clients_are_no_persons(self):
        self.check("page.md", "The client repeats his request.\n", '1: "his"')

    def test_doc_comments_begin_with_a_verb_or_a_noun(self):
        for head in ("Of", "As", "What", "Whether", "The same"):
            self.assertIn(f'a.h:2: a doc comment that begins with "{head}"',
                          self.faults(**{"a.h": f"int b;\n/// {head} it.\nint a;\n"})[0])
            self.check("a.h", f"int b;\n// {head} it?\nint a;\n")
        self.check("a.h", "/// Returns it.\n///\n/// Of these, none is cold.\nint a;\n")

    def test_doc_comments_of_classes_begin_with_what_the_class_is(self):
        for head in ("Thread safety: none.", "Thread Safety, too: none.", "NotFound: there is none."):
            for declaration in ("class A {", "template <typename T>\nstruct A {", "enum class A { kB };"):
                self.check("a.h", f"int b;\n\n/// {head}\n/// Owns it.\n{declaration}\n",
                           "3: the doc comment of a class that begins with")
        self.check("a.h", "/// Owns the segments.\n///\n/// Thread safety: none.\nclass A {};\n")
        self.check("a.h", "/// NotFound: there is none.\nint Find();\n\nclass A {};\n")

    def test_replaced_terms_are_found(self):
        for text in ("It is under way.", "A reply on its way.", "The index foresees it.", "In the shortest way.", "It rested.",
                     "It chills a key.", "It brings an entry home.", "It fetches the record.", "A remembered write.",
                     "The client's name.", "A slice of it.", "Stock of windows.", "A put list.", "Lists of puts.",
                     "There is no room.", "The owed work.", "A large page.", "It refuses the write.", "A refusal.",
                     "It refuses to start.", "Connections refused.", "Two processors.", "It lets go."):
            self.check("page.md", text + "\n", '1: "')
            self.check("a.cc", f"int a;\n// {text}\n", '2: "')
        self.check("page.md", 'The rest of it. "Room" is `refused`. Connection refused. Time slices.\n')

    def test_replaced_terms_are_found_in_manual_pages(self):
        self.check("page.1", ".B room\nThere is space.\nThere is no room.\n", '3: "room"')

    def test_replaced_terms_are_those_of_the_page(self):
        page = (pathlib.Path(__file__).parents[2] / "docs/style/naming.md").read_text(encoding="utf-8")
        rows = re.findall(r'^\| (".*?) \| (.*?) \| (.*?) ?\|$', page, re.MULTILINE)
        checked = [use for old, use, is_checked in rows if is_checked]
        self.assertEqual(len(checked), len(prose.TERMS), checked)
        for (term, pattern), (old, use, _) in zip(prose.TERMS.items(), (row for row in rows if row[2])):
            self.assertIn(term, use)
            self.assertRegex(old, rf"(?i)\b(?:{pattern})\b")

    def test_comments_of_all_languages_are_read(self):
        self.check("a.cc", f"int a;\n// {LONG}\n", "2: a sentence")
        self.check("a.cc", f"int a;  // {LONG}\n", "1: a sentence")
        self.check("a.h", f"/* Short.\n * {LONG} */\n", "1: a sentence")
        self.check("a.py", f'"""Short.\n\n{LONG}\n"""\n\n# {LONG}\n', "6: a sentence", "3: a sentence")
        self.check("CMakeLists.txt", f"set(a b)\n# {LONG}\n", "2: a sentence")
        self.check("tool", f"#!/bin/bash\n# {LONG}\necho a  # {LONG}\n", "2: a sentence", "3: a sentence")
        self.check("tool", f"#!/usr/bin/env python3\n# {LONG}\n", "2: a sentence")

    def test_lines_of_one_comment_are_one_text(self):
        half = "word " * 16
        self.check("a.cc", f"// {half}\n// {half}\n", "1: a sentence of 32 words")
        self.check("a.cc", f"int a;  // {half}\nint b;  // {half}\n")

    def test_code_is_no_prose(self):
        self.check("a.cc", f'const char* a = "// {LONG}";\nconst char* b = R"(\n// {LONG}\n)";\n')
        self.check("a.cc", f"// Example:\n//   {LONG}\n//   ┌ {LONG}\n")
        self.check("tool", f"#!/bin/bash\ncat <<'END'\n# {LONG}\nEND\n")
        self.check("a.txt", LONG)

    def test_a_list_item_is_no_code_however_deep(self):
        self.check("a.h", f"//   I1 Short.\n//      {LONG}\n", "1: a sentence of 31 words")

    def test_promela_has_comments_too(self):
        self.check("a.pml", f"/* {LONG}\n *\n * CHECK -DA=1\n" + " * FAULT LATE in 1 violates seen\n" * 20 + " */\n", "1: a sentence of 31 words")

    def test_figures_count_sentences_of_pages_and_comments(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory).resolve()
            (root / "store").mkdir()
            (root / "store/a.h").write_text("// One two three. Whoever waits is late.\n", encoding="utf-8")
            (root / "a.md").write_text(f"# Head\n\nOne two. One.\n\n{'x' * 101}\n", encoding="utf-8")
            found = dict(prose.figures(root))
        self.assertEqual(found["sentences of pages"], 3)
        self.assertEqual(found["words of a sentence of pages, median"], 1)
        self.assertEqual(found["sentences of pages with the subject who or whoever"], 0)
        self.assertEqual(found["words of a sentence of comments, median"], 3)
        self.assertEqual(found["sentences of comments with the subject who or whoever"], 1)
        self.assertEqual(found["lines of pages with more than 100 columns"], 1)

    def test_one_folder_is_checked_alone(self):
        found = self.faults(only=["a"], **{"a/x.cc": f"// {LONG}\n", "b.cc": f"// {LONG}\n"})
        self.assertEqual([fault.split(":")[0] for fault in found], ["a/x.cc"])


if __name__ == "__main__":
    unittest.main()
