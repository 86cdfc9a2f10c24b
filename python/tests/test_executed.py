"""What a traced step moves is what four processes of gloo moved in it: each collective, with its bytes."""
import importlib.util
import json
import os
import sys
import tempfile
import unittest
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded  # noqa: E402

# What CommDebugMode calls a collective, by its last part.
COUNTED = {"_allgather_base_": "all_gather", "all_gather_into_tensor": "all_gather", "_reduce_scatter_base_": "reduce_scatter",
           "reduce_scatter_tensor": "reduce_scatter", "all_reduce": "all_reduce", "allreduce_": "all_reduce",
           "all_to_all_single": "all_to_all"}


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Executed(unittest.TestCase):
    maxDiff = 4000

    def compare(self, program, mesh):
        import executed

        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "run.json")
            made = recorded.run(program, "--mesh", mesh, "-o", output)
            self.assertEqual(made.returncode, 0, made.stderr)
            with open(output, encoding="utf-8") as file:
                steps = json.load(file)["steps"]
        traced = [[move["collective"], move["ranks"], move["bytes"]["max"]] for step in steps for move in step.get("moves", [])]
        axes = dict(each.split("=") for each in mesh.split(","))
        seen = executed.on_ranks(program, {name: int(size) for name, size in axes.items()})
        self.assertEqual(Counter(map(tuple, traced)), Counter(map(tuple, seen["moves"])))
        counts = Counter()
        for name, count in seen["counts"].items():
            counts[COUNTED[name.rpartition(".")[2]]] += count
        self.assertEqual(counts, Counter(collective for collective, _, _ in traced))

    def test_llama(self):
        self.compare("llama.py:build", "dp=2,tp=2")

    def test_deepseek_under_balanced_routing(self):
        self.compare("deepseek.py:build", "dp=2,ep=2")

    def test_an_implicit_gather(self):
        self.compare("planted.py:build_implicit_gather", "dp=2,tp=2")

    def test_a_decoders_layer_that_sums_where_half_would_do(self):
        self.compare("decoder.py:build", "dp=2,tp=2")

    def test_a_router(self):
        self.compare("planted.py:build_router", "dp=2,tp=2")


if __name__ == "__main__":
    unittest.main()
