#!/usr/bin/env python3
"""transports.py notices a suite, and a test, that a transport lacks."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import transports  # noqa: E402


def listing(suite, **counts):
    names = [f"  Test{i}/{transport}" for transport, count in counts.items() for i in range(count)]
    return "\n".join([f"{suite}.", *names]) + "\n"


class TransportsTest(unittest.TestCase):
    def faults(self, text):
        return [fault for fault in transports.faults_of(transports.count_tests(text)) if "remove its reason" not in fault]

    def test_a_suite_over_all_is_good(self):
        self.assertEqual(self.faults(listing("On/New", embedded=1, local=3, tcp=3, tls=3, verbs=3, sim=1)), [])
        self.assertEqual(self.faults(listing("On/New", local=3, tcp=3, tls=3, verbs=6, sim=3)), [])
        self.assertEqual(self.faults(listing("On/New", embedded=2)), [])

    def test_a_suite_that_leaves_a_transport_out(self):
        (fault,) = self.faults(listing("On/New", local=3, tcp=3, verbs=3, sim=3))
        self.assertIn("On/New has no test over tls", fault)

    def test_a_suite_that_leaves_a_test_out(self):
        (fault,) = self.faults(listing("On/New", local=3, tcp=2, tls=3, verbs=3, sim=3))
        self.assertEqual(fault, "On/New has 2 tests over tcp, and 3 over another")
        (fault,) = self.faults(listing("On/New", local=3, tcp=3, tls=3, verbs=2, sim=3))
        self.assertIn("2 tests over verbs", fault)

    def test_a_reason_that_nothing_needs(self):
        faults = list(transports.faults_of(transports.count_tests(listing("On/BackupRequests", local=1, tcp=1, tls=1, verbs=1))))
        self.assertTrue(any("On/BackupRequests has tests over tls" in fault for fault in faults))

    def test_the_simulation_is_left_out(self):
        (fault,) = self.faults(listing("On/New", local=3, tcp=3, tls=3, verbs=3))
        self.assertIn("On/New has no test over sim", fault)

    def test_the_page(self):
        counts = transports.count_tests(listing("On/BackupRequests", local=2, tcp=2, verbs=4))
        source = (
            'TEST_P(BackupRequests, One) {\n  if (!remote()) GTEST_SKIP() << "of clients";\n'
            '  if (kAddressSanitizer) GTEST_SKIP() << "no deployment";\n}\n'
            'void Helper() {\n  if (!remote()) GTEST_SKIP() << "no test";\n}\n'
        )
        page = transports.page_of(counts, [source])
        self.assertIn("| On/BackupRequests | - | 2 | 2 | - | 4 | - |\n", page)
        self.assertIn("| all | - | 2 | 2 | - | 4 | - |\n", page)
        self.assertIn("- `On/BackupRequests` over tls: TLS changes nothing above the transport\n", page)
        self.assertIn("- `BackupRequests.One`, if `!remote()`: of clients\n", page)
        self.assertEqual(page.count("`, if `"), 1)

    def test_a_filter_that_matches_no_test_over_verbs(self):
        text = "On/New.  # a comment\n  Reads/local  # GetParam() = 0\n  Reads/verbs_with_windows  # GetParam() = 1\n  Writes/local\n"
        self.assertEqual(list(transports.unmatched(["On/New.*", "On/New.Reads/verbs*"], text)), [])
        (fault,) = transports.unmatched(["On/New.Reads/verbs_with_windows", "On/New.Writes/*"], text)
        self.assertIn("On/New.Writes/* matches no test", fault)

    def test_references_of_reasons_are_resolved(self):
        for suite, transport in transports.EXCEPTIONS:
            self.assertFalse(transports.reason_of(suite, transport).startswith("as "))


if __name__ == "__main__":
    unittest.main()
