"""What placement-audit check writes for other tools is what their formats ask. SARIF has tests/outside/check_sarif.py."""
import os
import pathlib
import subprocess
import sys
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
AUDIT = pathlib.Path(os.environ.get("TESSERA_AUDIT", ROOT / "build/release/bin/placement-audit"))
PROGRAMS = [path for folder in ("findings", "programs") for path in sorted((ROOT / "tests/data" / folder).glob("*.json"))
            if ".budget" not in path.name]


def report(program, form):
    ran = subprocess.run([AUDIT, "check", program, "--format", form], capture_output=True, text=True, check=False)
    if ran.returncode > 1:
        raise AssertionError(f"{program}: {ran.stderr}")
    return ran


@unittest.skipUnless(AUDIT.exists(), "placement-audit is not built")
class Reports(unittest.TestCase):
    def test_junit_counts_what_fails(self):
        for program in PROGRAMS:
            with self.subTest(program.name):
                ran = report(program, "junit")
                suites = xml.etree.ElementTree.fromstring(ran.stdout.encode())
                failures = len(suites.findall("./testsuite/testcase/failure"))
                self.assertEqual(int(suites.get("failures")), failures)
                self.assertEqual(int(suites.get("tests")), len(suites.findall("./testsuite/testcase")))
                self.assertEqual(ran.returncode, 1 if failures else 0)

    def test_what_stands_beside_others_is_what_is_answered(self):
        script = ROOT / "scripts" / "beside_others.py"
        ran = subprocess.run([sys.executable, script, "audit", AUDIT, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stdout.strip(), ran.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
