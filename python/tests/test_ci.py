"""The examples of examples/ci, run: the workflow's steps one after another as GitHub runs them, in a repository with a branch that brings
a mistake; the hook's command, and the hook itself where pre-commit is installed.

Where torch is not installed a stand-in of the tracer hands out the programs that were recorded of the same train.py.
"""
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
AUDIT = pathlib.Path(os.environ.get("TESSERA_AUDIT", ROOT / "build/release/bin/placement-audit"))
EXAMPLES = ROOT / "examples/ci"
DECODER = (ROOT / "python/tests/models/decoder.py").read_text(encoding="utf-8")
MENDED = DECODER.replace("return _layer(mesh)\n", "return _layer(mesh, output_layouts=Shard(1))\n")
BUDGET = {"version": 1, "implicit_bytes": 0, "rules": {"all-reduce-splits": 0}}
# Of train.py with the mistake, and of the one without it.
STAND_IN = """import pathlib, shutil, sys
program, mesh, output = sys.argv[1], sys.argv[3], sys.argv[5]
assert (program, sys.argv[2], mesh, sys.argv[4]) == ("train.py:build", "--mesh", "dp=64,tp=8", "-o"), sys.argv
mistaken = "return _layer(mesh)\\n" in pathlib.Path("train.py").read_text()
text = pathlib.Path(PROGRAMS, "torch_decoder.json" if mistaken else "torch_decoder_mended.json").read_text()
pathlib.Path(output).write_text(text.replace('"name":"torch_decoder_mended"', '"name":"build"').replace('"name":"torch_decoder"', '"name":"build"')
                                .replace("decoder.py:", "train.py:"))
"""


def block_of(lines, at, indent):
    """The text of a block scalar that begins after a line."""
    body = []
    for line in lines[at + 1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        body.append(line)
    width = min(len(line) - len(line.lstrip()) for line in body if line.strip())
    return "\n".join(line[width:] for line in body).rstrip("\n") + "\n"


def steps_of(text):
    """The steps of the workflow's job: their name, if, uses and run."""
    lines = text.splitlines()
    steps = []
    for at in range(lines.index("    steps:") + 1, len(lines)):
        found = re.match(r"      (- |  )(name|if|uses|run): *(.*)", lines[at])
        if lines[at].startswith("      - "):
            steps.append({})
        if found:
            steps[-1][found[2]] = block_of(lines, at, 8) if found[3] == "|" else found[3]
    return steps


class Repository:
    """A folder with a repository of train.py and budget.json, its origin, and the programs on a PATH of their own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        programs = self.folder / "bin"
        programs.mkdir()
        (programs / "placement-audit").symlink_to(AUDIT.resolve())
        (programs / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        (programs / "python").chmod(0o755)
        packages = ROOT / "python"
        if importlib.util.find_spec("torch") is None:
            packages = self.folder / "packages"
            (packages / "tessera_trace").mkdir(parents=True)
            (packages / "tessera_trace/__init__.py").write_text("")
            (packages / "tessera_trace/__main__.py").write_text(f"PROGRAMS = {str(ROOT / 'tests/data/programs')!r}\n" + STAND_IN)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.folder), "GIT_CONFIG_GLOBAL": os.devnull,
                            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
                            "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1", "GITHUB_BASE_REF": "main",
                            "PRE_COMMIT_HOME": str(self.folder / "pre-commit"), "OMP_NUM_THREADS": "1"}
        self.work = self.folder / "work"
        self.work.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")

    def run(self, *command):
        return subprocess.run(command, cwd=self.work, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=600, check=False)

    def git(self, *arguments):
        ran = self.run("git", *arguments)
        if ran.returncode:
            raise AssertionError(f"git {arguments}: {ran.stdout}")

    def write(self, **files):
        for name, text in files.items():
            (self.work / name.replace("_", ".")).write_text(text)
        self.git("add", "--all")

    def pull_request(self, base, branch):
        """main with one train.py, and a branch with another, as the checkout of a pull request has them."""
        self.write(train_py=base, budget_json=json.dumps(BUDGET))
        self.git("commit", "--quiet", "--message", "base")
        self.git("clone", "--quiet", "--bare", ".", "../origin")
        self.git("remote", "add", "origin", "../origin")
        self.git("fetch", "--quiet", "origin")
        self.git("switch", "--quiet", "--create", "change")
        self.write(train_py=branch)
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")

    def job(self):
        """What each step did: None for one that was left out after a failure, else its exit code and what it said."""
        done, failed = {}, False
        for step in steps_of((EXAMPLES / "audit.yml").read_text()):
            name = step.get("name") or step.get("uses") or step["run"].split()[0] + " …"
            if skipped(step):
                continue
            if failed and step.get("if") != "always()":
                done[name] = None
                continue
            (self.folder / "step.sh").write_text(step["run"])
            ran = self.run("bash", "-e", str(self.folder / "step.sh"))  # as GitHub's own default
            done[name] = (ran.returncode, ran.stdout)
            failed = failed or ran.returncode != 0
        return done


def skipped(step):
    """What needs a network or GitHub itself."""
    return "uses" in step or step["run"].startswith(("pip install", "gh "))


@unittest.skipUnless(AUDIT.exists() and shutil.which("git"), "placement-audit is not built, or git is not installed")
class InRepository(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.repository = Repository(scratch.name)


class Workflow(InRepository):
    def test_what_is_left_out_are_the_steps_that_need_a_network(self):
        steps = steps_of((EXAMPLES / "audit.yml").read_text())
        self.assertEqual([step.get("uses") or step["run"].split("\n")[0] for step in steps if skipped(step)],
                         ["actions/checkout@v4", "actions/setup-python@v5",
                          "pip install torch --index-url https://download.pytorch.org/whl/cpu", "github/codeql-action/upload-sarif@v3",
                          'gh pr comment "$NUMBER" --body-file audit.md'])
        self.assertEqual([step["name"] for step in steps if not skipped(step)], ["trace this branch, and the one it is for", "check"])

    @unittest.skipUnless(importlib.util.find_spec("yaml"), "yaml is not installed")
    def test_the_steps_are_those_that_yaml_reads(self):
        import yaml

        read = yaml.safe_load((EXAMPLES / "audit.yml").read_text())["jobs"]["audit"]["steps"]
        wanted = [{key: step[key] for key in ("name", "if", "uses", "run") if key in step} for step in read]
        self.assertEqual(steps_of((EXAMPLES / "audit.yml").read_text()), wanted)

    def test_a_branch_that_brings_a_mistake_fails(self):
        self.assertNotEqual(DECODER, MENDED)
        self.repository.pull_request(MENDED, DECODER)
        trace, check = self.repository.job().values()
        self.assertEqual(trace[0], 0, trace)
        self.assertEqual(check[0], 1, check)
        self.assertRegex(check[1], r"FAIL all-reduce-splits .*train\.py:24")
        log = json.loads((self.repository.work / "audit.sarif").read_text())
        found = [(result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]) for result in log["runs"][0]["results"]]
        self.assertIn(("all-reduce-splits", "train.py"), found)
        self.assertIn("attention.wo", (self.repository.work / "audit.md").read_text())

    def test_one_that_brings_none_passes(self):
        for base, branch in ((MENDED, MENDED), (DECODER, MENDED)):
            with self.subTest(base == branch), tempfile.TemporaryDirectory() as folder:
                repository = Repository(folder)
                repository.pull_request(base, branch)
                self.assertEqual([done[0] for done in repository.job().values()], [0, 0])

    def test_where_tracing_fails_the_check_is_left_out(self):
        self.repository.pull_request(MENDED, DECODER)
        (self.repository.work / "train.py").unlink()
        trace, check = self.repository.job().values()
        self.assertNotEqual(trace[0], 0)
        self.assertIsNone(check)


class Hook(InRepository):
    def test_its_command_answers_as_the_check_does(self):
        lines = (EXAMPLES / "pre-commit-config.yaml").read_text().splitlines()
        at = lines.index("        entry: >-")
        entry = shlex.split(" ".join(block_of(lines, at, 8).split("\n")))
        self.repository.write(budget_json=json.dumps(BUDGET))
        for text, code in ((DECODER, 1), (MENDED, 0)):
            self.repository.write(train_py=text)
            ran = self.repository.run(*entry)
            self.assertEqual(ran.returncode, code, ran.stdout)

    @unittest.skipUnless(importlib.util.find_spec("pre_commit"), "pre-commit is not installed")
    def test_it_refuses_the_commit_of_a_mistake_and_lets_others_pass(self):
        repository = self.repository
        shutil.copy(EXAMPLES / "pre-commit-config.yaml", repository.work / ".pre-commit-config.yaml")
        installed = repository.run(sys.executable, "-m", "pre_commit", "install")
        self.assertEqual(installed.returncode, 0, installed.stdout)
        (repository.work / ".gitignore").write_text("run.json\n")
        for files, code, said in (({"budget_json": json.dumps(BUDGET)}, 0, r"placement audit\.+.*Skipped"),
                                  ({"train_py": DECODER}, 1, r"(?s)placement audit\.+Failed.*FAIL all-reduce-splits .*train\.py:24"),
                                  ({"train_py": MENDED}, 0, r"placement audit\.+Passed")):
            repository.write(**files)
            ran = repository.run("git", "commit", "--message", "a change")
            self.assertEqual(ran.returncode, code, ran.stdout)
            self.assertRegex(ran.stdout, said)


if __name__ == "__main__":
    unittest.main()
