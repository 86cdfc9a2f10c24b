"""Tests of the tester: right answers pass, planted wrong ones are found.

    python3 tests/differential/tester_test.py build/release/bin/placement-audit
"""
import copy
import os
import sys
import unittest
import warnings
from unittest import mock

import numpy as np

import campaign
import differential
import dtypes
import generate
import judge
import operands
import oracle
import placing
import random_ops
import slopes
import verdict
from audit import Audit, join
from oracle import Tensor
from shrink import Shrinker
from table import Table

HERE = os.path.dirname(os.path.abspath(__file__))
AUDIT = sys.argv.pop() if len(sys.argv) > 1 and os.path.exists(sys.argv[-1]) else "placement-audit"


def f64(shape, values, placements=("R",)):
    return {"shape": shape, "dtype": "F64", "placements": list(placements), "values": values}


SUM = {"mesh": {"shape": [2]}, "inputs": {"x": f64([4], [0.5, 1.5, -2.0, 8.0], ["S(0)"]), "w": f64([4], [1, 2, 3, 4])},
       "program": [{"op": "mul", "args": ["x", "w"], "attrs": {}, "out": ["y"]},
                   {"op": "sum", "args": ["y"], "attrs": {}, "out": ["z"]}]}
SQUARES = {"mesh": {"shape": [2]}, "inputs": {"x": f64([3], [0.5, 1.5, -2.0], ["S(0)"]), "c": f64([3], [1, -1, 2])},
           "program": [{"op": "square", "args": ["x"], "attrs": {}, "out": ["y"]},
                       {"backward": "y", "grads": ["x"], "cotangent": "c"}]}
ZEROS = {"mesh": {"shape": [2]}, "inputs": {"x": f64([2], [-0.0, 0.0], ["S(0)"])},
         "program": [{"op": "clone", "args": ["x"], "attrs": {}, "out": ["y"]}]}


class WithAudit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.table, cls.audit = Table(AUDIT), Audit(AUDIT)

    def said(self, document, audit=None):
        return verdict.of_outcome(document, self.table, (audit or self.audit).run(document), 1)


class PlantedAnswers(WithAudit):
    """The program lies: the judge says so."""

    def spoiled(self, document, how, name=""):
        settings = {"SPOILED_AUDIT": AUDIT, "SPOILED_HOW": how, "SPOILED_NAME": name}
        with mock.patch.dict(os.environ, settings):
            return self.said(document, Audit(os.path.join(HERE, "spoiled_audit.py")))

    def test_right_answers_are_fine(self):
        for document in (SUM, SQUARES, ZEROS):
            self.assertEqual(self.said(document).kind, verdict.FINE)

    def test_a_wrong_value_is_found(self):
        self.assertEqual(self.spoiled(SUM, "value", "y").kind, "value")
        self.assertEqual(self.spoiled(SUM, "value", "z").kind, "value")

    def test_a_wrong_gradient_is_found(self):
        self.assertEqual(self.spoiled(SQUARES, "value", "grad.x").kind, "gradient")

    def test_the_sign_of_a_copied_zero_is_found(self):
        self.assertEqual(self.spoiled(ZEROS, "zero").kind, "value")

    def test_an_error_of_a_rank_is_found(self):
        self.assertEqual(self.spoiled(SUM, "late").kind, "late error")

    def test_a_program_that_dies_is_found(self):
        outcome = Audit("/bin/false").run(SUM)
        self.assertEqual(verdict.of_outcome(SUM, self.table, outcome, 1).kind, "crash")


class PlantedOracles(WithAudit):
    """The oracle lies: its disagreement with the program shows that every part of it is compared."""

    def said_with(self, name, change, document=SUM):
        function = oracle.OPS[name].function

        def changed(tensors, attrs):
            results = oracle.results_of(function(tensors, attrs))
            return [change(copy.copy(r)) for r in results]
        with mock.patch.object(oracle.OPS[name], "function", changed):
            return self.said(document).kind

    def test_another_value(self):
        def change(result):
            result.a = result.a + 1e-9
            return result
        self.assertEqual(self.said_with("mul", change), "value")

    def test_another_dtype(self):
        def change(result):
            result.dtype = "F32"
            return result
        self.assertEqual(self.said_with("mul", change), "dtype")

    def test_another_shape(self):
        def change(result):
            result.a = result.a[None]
            return result
        self.assertEqual(self.said_with("mul", change), "shape")

    def test_a_refusal(self):
        def change(result):
            raise oracle.Refused("so")
        self.assertEqual(self.said_with("mul", change), "accepted")

    def test_another_function_has_another_gradient(self):
        with mock.patch.object(oracle.OPS["square"], "function", lambda t, a: Tensor("F64", t[0].a**2 + t[0].a / 7)):
            self.assertIn(self.said(SQUARES).kind, ("value", "gradient"))
            outcome = self.audit.run(SQUARES)
            with self.assertRaises(judge.Finding):
                slopes.check_gradients(SQUARES, self.table, outcome, 1)


class Judgement(unittest.TestCase):
    def compare(self, got, wanted, moved, dtype="F64"):
        expected = Tensor(dtype, np.array(wanted))
        others = [Tensor(dtype, np.array(m)) for m in moved]
        judge.compare("y", (dtype, np.array(got)), expected, judge.Room(expected, others))

    def test_what_does_not_round_is_exact(self):
        self.compare([1.0], [1.0], [[1.0]])
        with self.assertRaises(judge.Finding):
            self.compare([1.0 + 2**-52], [1.0], [[1.0]])

    def test_rounding_is_allowed_and_no_more(self):
        noise = [[1.0 + 2**-52], [1.0 - 2**-52]]
        self.compare([1.0 + 2**-51], [1.0], noise)
        with self.assertRaises(judge.Finding):
            self.compare([1.0 + 1e-12], [1.0], noise)

    def test_nan_and_infinity_are_exact(self):
        self.compare([np.nan], [np.nan], [])
        for got, wanted in ((np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1e308)):
            with self.assertRaises(judge.Finding):
                self.compare([got], [wanted], [[wanted]])

    def test_the_sign_of_zero_counts_unless_worlds_disagree(self):
        with self.assertRaises(judge.Finding):
            self.compare([-0.0], [0.0], [[0.0]])
        self.compare([-0.0], [0.0], [[-0.0]])

    def test_integers_are_exact(self):
        with self.assertRaises(judge.Finding):
            self.compare([2**62 + 1], [2**62], [], "I64")

    def test_what_rounding_decides_is_not_asked(self):
        self.compare([3.0], [2.0], [[np.inf]])


class Carriers(unittest.TestCase):
    def test_bf16_rounds_halves_to_even(self):
        cases = {1 + 2**-8: 1.0, 1 + 3 * 2**-8: 1 + 2**-6, 1 + 2**-7: 1 + 2**-7, -1e39: -np.inf, 3e-41: 2**-133 * 0}
        for value, wanted in cases.items():
            if wanted:
                self.assertEqual(float(dtypes.to_bf16(np.float64(value))), wanted)

    def test_promotion_follows_the_table(self):
        for a, b, wanted in (("BF16", "F16", "F32"), ("I64", "F16", "F16"), ("BOOL", "U8", "U8"), ("I32", "U8", "I32")):
            self.assertEqual(dtypes.promote(a, b), wanted)
            self.assertEqual(dtypes.promote(b, a), wanted)

    def test_summands_reduce_to_the_whole(self):
        rng = np.random.default_rng(5)
        for _ in range(400):
            mesh, dtype = placing.mesh_of(rng), str(rng.choice(dtypes.ALL))
            a = operands.values(rng, dtype, tuple(rng.choice([0, 1, 2, 3, 5], rng.integers(0, 4))), operands.style_of(rng))
            kinds = ("sum", "max", "min", "prod")  # averages over three ranks round
            placements = placing.placements_of(rng, mesh, (dtype, kinds), a.ndim)
            entry = placing.entry(rng, mesh, dtype, a, placements)
            with np.errstate(all="ignore"):
                whole = oracle.whole({"mesh": {"shape": mesh}}, entry)
            np.testing.assert_array_equal(whole, a)

    def test_a_write_reaches_what_shares_storage(self):
        base = Tensor("F64", np.arange(6.0).reshape(2, 3))
        world = oracle.World()
        column = world.call("select", [base], {"dim": 1, "index": 2})[0]
        world.call("fill_", [column], {"value": 9.0})
        np.testing.assert_array_equal(base.a, [[0, 1, 9], [3, 4, 9]])


class Programs(WithAudit):
    def programs(self, seed, count):
        made = []
        for index in range(count):
            rng = np.random.default_rng([seed, index])
            made.append(generate.program(rng, self.table, "add" if index % 2 else "sum")[1])
        return made

    def test_equal_seeds_make_equal_programs(self):
        self.assertEqual(self.programs(3, 20), self.programs(3, 20))

    def test_joined_programs_answer_as_alone(self):
        documents = [SUM, SQUARES, ZEROS, dict(SUM, program=SUM["program"][:1])]
        for document, outcome in zip(documents, self.audit.run_all(documents)):
            alone = self.audit.run(document)
            self.assertEqual(set(outcome.results), set(alone.results))
            for name, (dtype, a) in outcome.results.items():
                self.assertEqual(dtype, alone.results[name][0])
                np.testing.assert_array_equal(a, alone.results[name][1])

    def test_a_refused_program_does_not_end_the_others(self):
        bad = dict(SUM, program=[{"op": "sum", "args": ["x"], "attrs": {"dim": [3]}, "out": ["y"]}])
        outcomes = self.audit.run_all([SUM, bad, ZEROS])
        self.assertEqual([o.exit_code for o in outcomes], [0, 3, 0])
        self.assertIn("/program/0: sum: ", outcomes[1].text)

    def test_names_do_not_collide(self):
        joined, owners = join([SUM, SUM])
        self.assertEqual(len(joined["inputs"]), 4)
        self.assertEqual(owners, [(0, 0), (0, 1), (1, 0), (1, 1)])

    def test_a_failing_program_shrinks(self):
        fails = lambda documents: [any(s.get("op") == "mul" for s in d["program"]) for d in documents]
        small = Shrinker(fails).smaller(copy.deepcopy(SUM))
        self.assertEqual([s["op"] for s in small["program"]], ["mul"])
        self.assertEqual(small["mesh"]["shape"], [1])

    def test_every_op_is_judged_or_left_out(self):
        left_out = {op for ops in differential.LEFT_OUT.values() for op in ops.split()}
        judged = set(campaign.covered_ops(self.table)) | set(random_ops.OPS)
        self.assertEqual(judged | left_out, set(self.table.ops))
        self.assertFalse(judged & left_out)


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    unittest.main()
