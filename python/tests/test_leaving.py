"""What placement-audit writes as PyTorch code runs, and computes what the model does on one rank."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded  # noqa: E402

MEGATRON = ["layers.*.wq.weight=S(0)", "layers.*.wk.weight=S(0)", "layers.*.wv.weight=S(0)", "layers.*.wo.weight=S(1)",
            "layers.*.w1.weight=S(0)", "layers.*.w2.weight=S(1)", "tok_embeddings.weight=S(0)", "output.weight=S(0)"]


def pinned(placements):
    return [word for pin in placements for word in ("--pin", pin)]


# By name: what placement-audit is asked for. All run on four ranks.
PLANS = {
    "solved": ["--free"],
    "columns then rows": ["--free", *pinned([*MEGATRON, "layers.*.feed_forward.w1:mm*=S(1)", "layers.*.feed_forward.w2:mm*=P(sum)"])],
    "two axes": ["--mesh", "dp=2,tp=2", *pinned([pin.replace("=", "=R,") for pin in MEGATRON] + ["input.0=S(0),R", "target.0=S(0),R"])],
    "gathered": ["--free", *pinned(["*.weight=S(0)", "input.0=S(0)", "target.0=S(0)", "layers.*:mm*=S(0)"])],
}


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
@unittest.skipUnless(recorded.audit(), "placement-audit is not built")
class Leaving(unittest.TestCase):
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        program = os.path.join(folder.name, "run.json")
        made = recorded.run("whole.py:build", "--mesh", "tp=4", "-o", program)
        assert made.returncode == 0, made.stderr
        cls.paths = {name: os.path.join(folder.name, f"plan{at}.py") for at, name in enumerate(PLANS)}
        for name, arguments in PLANS.items():
            ran = subprocess.run([recorded.audit(), "solve", program, "--format", "torch", "-o", cls.paths[name], *arguments],
                                 capture_output=True, text=True, check=False)
            assert (ran.returncode, ran.stderr) == (0, ""), f"{name}: {ran.stderr}"

    def text(self, name):
        with open(self.paths[name], encoding="utf-8") as file:
            return file.read()

    def test_four_processes_compute_what_one_does(self):
        ran = recorded.started([sys.executable, os.path.join(recorded.HERE, "leaving.py"), *self.paths.values()])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = dict(zip(PLANS, json.loads(ran.stdout)))
        for name, each in found.items():
            with self.subTest(name):
                self.assertGreater(each["largest"], 0.1)
                self.assertLess(each["output"], 1e-12)
                self.assertLess(each["gradients"], 1e-12)
        parameters = found["columns then rows"]["parameters"]
        self.assertEqual(parameters["layers.1.attention.wq.weight"], "(Shard(dim=0),)")
        self.assertEqual(parameters["layers.1.attention.wo.weight"], "(Shard(dim=1),)")
        self.assertEqual(found["gathered"]["parameters"]["layers.0.attention_norm.weight"], "(Shard(dim=0),)")

    def test_modules_have_the_styles_that_fit(self):
        text = self.text("columns then rows")
        for style in ("\"layers.*.feed_forward.w1\": ColwiseParallel(", "\"layers.*.feed_forward.w2\": RowwiseParallel("):
            self.assertIn(style, text)
        self.assertIn("PLAN = {}\n", self.text("two axes"))
        self.assertIn("    \"layers.*.feed_forward.w1.weight\": [Replicate()],\n", self.text("gathered").partition("USED")[2])

    def test_a_fake_group(self):
        ran = recorded.started([sys.executable, os.path.join(recorded.HERE, "leaving.py"), "fake", self.paths["columns then rows"]])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        shapes = json.loads(ran.stdout)
        self.assertEqual(shapes["layers.0.feed_forward.w1.weight"], [8, 16])
        self.assertEqual(shapes["layers.0.feed_forward.w2.weight"], [16, 8])


if __name__ == "__main__":
    unittest.main()
