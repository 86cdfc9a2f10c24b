"""What the recorded programs say, read without torch: that they are well formed, and that what was planted stands in them."""
import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded  # noqa: E402

ROOT = os.path.normpath(os.path.join(recorded.HERE, "..", ".."))
COMMON = {"module", "site", "phase", "stage", "from"}
KEYS = {"op": {"op", "args", "attrs", "out", "moves"}, "redistribute": {"redistribute", "to", "out", "implicit", "for", "moves"},
        "region": {"region", "args", "out", "flops", "bytes", "moves", "warning"}, "host_read": {"host_read", "bytes", "why"}}
PLACEMENT = re.compile(r"R|S\(\d+\)|SS\(\d+,\d+\)|P\((sum|avg|max|min|prod)\)")


def load(name):
    with open(recorded.path_of(name), encoding="utf-8") as file:
        return json.load(file)


def kind_of(step):
    return next(kind for kind in KEYS if kind in step)


def names_in(args):
    if isinstance(args, list):
        return [name for each in args for name in names_in(each)]
    return [args] if isinstance(args, str) else []


def line_with(name, text):
    """"planted.py:25" of the first line of a model that has this text."""
    file = recorded.RECORDED[name][0].partition(":")[0]
    with open(os.path.join(recorded.MODELS, file), encoding="utf-8") as source:
        at = next(number for number, line in enumerate(source, 1) if text in line)
    return f"{file}:{at}"


def table():
    """The table of ATen's names, which needs no torch."""
    path = os.path.join(ROOT, "python", "tessera_trace", "aten_table.py")
    spec = importlib.util.spec_from_file_location("aten_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def engine_ops():
    """The engine's ops by name, as `placement-audit ops` prints them; None where it is not built."""
    program = recorded.audit()
    if not program:
        return None
    printed = subprocess.run([program, "ops"], capture_output=True, check=True, text=True).stdout
    return {op["name"]: op for op in json.loads(printed)["ops"]}


class WellFormed(unittest.TestCase):
    def test_every_file_is_small(self):
        for name in recorded.RECORDED:
            self.assertLess(os.path.getsize(recorded.path_of(name)), 300_000, name)

    def test_no_path_of_a_machine_is_told(self):
        for name in recorded.RECORDED:
            with open(recorded.path_of(name), encoding="utf-8") as file:
                self.assertNotRegex(file.read(), r'"/|/home/|site-packages', name)

    def test_every_name_is_made_once_and_before_it_is_used(self):
        for name in recorded.RECORDED:
            program, known = load(name), set()
            for value in program["values"]:
                self.check_value(name, program, value, known)
            for step in program["steps"]:
                kind = kind_of(step)
                self.assertLessEqual(set(step), KEYS[kind] | COMMON, (name, step))
                used = names_in(step["args"]) if "args" in step else [step[kind]]
                for operand in used:
                    self.assertIn(operand, known, (name, step))
                if kind == "redistribute":
                    self.assertNotIn(step["out"], known, (name, step))
                    known.add(step["out"])
                for value in step["out"] if kind in ("op", "region") else ():
                    self.check_value(name, program, value, known)

    def check_value(self, name, program, value, known):
        self.assertNotIn(value["name"], known, name)
        known.add(value["name"])
        if value["mesh"] is None:
            self.assertIsNone(value["placements"], (name, value))
        elif value["placements"] is not None:
            self.assertEqual(len(value["placements"]), len(program["meshes"][value["mesh"]]["shape"]), (name, value))
            for placement in value["placements"]:
                self.assertTrue(PLACEMENT.fullmatch(placement), (name, value))

    def test_moves_are_of_axes_of_the_whole_mesh(self):
        for name in recorded.RECORDED:
            program = load(name)
            world = dict(zip(program["meshes"]["world"]["axes"], program["meshes"]["world"]["shape"]))
            for step in program["steps"]:
                for move in step.get("moves", ()):
                    ranks = 1
                    for axis in move["axes"]:
                        ranks *= world[axis]
                    self.assertEqual(move["ranks"], ranks, (name, step))
                    self.assertLessEqual(move["bytes"]["max"], move["bytes"]["total"])

    def test_at_most_2_percent_of_a_models_ops_are_not_mapped(self):
        for name in ("torch_llama", "torch_llama_stages", "torch_deepseek"):
            steps = load(name)["steps"]
            ops = sum("op" in step for step in steps)
            unknown = sum(step.get("region", "").startswith("aten.") for step in steps)
            self.assertLessEqual(unknown, 0.02 * (ops + unknown), name)


class Planted(unittest.TestCase):
    def test_an_implicit_gather_stands_at_its_line(self):
        site = line_with("torch_implicit_gather", "# gathers `both`")
        found = [s for s in load("torch_implicit_gather")["steps"] if s.get("implicit") and s.get("site") == site]
        forward = [s for s in found if s["phase"] == "forward"]
        self.assertEqual([(s["to"], s["for"], s["moves"][0]["collective"]) for s in forward], [(["R"], "split.self", "all_gather")])

    def test_a_sum_that_is_cut_afterwards_stands_at_its_line_and_is_mended_by_the_plan(self):
        summed = {"torch_decoder": "all_reduce", "torch_decoder_mended": "reduce_scatter"}
        for name, collective in summed.items():
            for text in ("return self.wo(", "return self.w2("):
                site = line_with(name, text)
                moves = [s["moves"][0]["collective"] for s in load(name)["steps"]
                         if "redistribute" in s and s["phase"] == "forward" and s.get("site") == site and s["moves"]]
                self.assertEqual(moves, [collective], (name, text))

    def test_a_missing_reduction_is_a_warning_that_names_the_parameter(self):
        program = load("torch_router")
        reduced = [s for s in program["steps"] if s.get("region") == "fsdp_reduce_scatter"]
        self.assertEqual([s.get("warning") for s in reduced],
                         ["the gradient of gate.weight may differ along tp, where the parameter does not: a reduction is missing"])
        self.assertEqual(reduced[0]["out"][0]["varies"], ["tp"])
        site = line_with("torch_router", "# the gradient of gate.weight")
        makes = [s for s in program["steps"] if s.get("site") == site and s.get("module") == "gate" and s["phase"] == "backward"]
        self.assertTrue(makes)

    def test_sound_models_have_no_such_warning(self):
        for name in ("torch_llama", "torch_llama_stages", "torch_deepseek"):
            program = load(name)
            self.assertNotIn("warnings", program, name)
            self.assertFalse([s for s in program["steps"] if "reduction is missing" in s.get("warning", "")], name)

    def test_local_map_and_custom_ops_are_one_region_each(self):
        regions = [s["region"] for s in load("torch_regions")["steps"] if "region" in s]
        self.assertEqual(regions, ["local_map.mixed", "to_local", "tessera_models.doubled.default", "from_local",
                                   "local_map.mixed.backward"])
        mixed = load("torch_regions")["steps"][0]
        self.assertEqual(mixed["flops"], 2 * 64 * 128 * 128)

    def test_each_wrong_row_stands_at_its_line(self):
        steps = load("torch_wrong_rows")["steps"]
        expected = {"# 1:": ("op", "gather"), "# 2:": ("op", "scatter_add"), "# 3:": ("op", "add"),
                    "# 4: the norm": ("op", "linalg_vector_norm"), "# 4: not monotone": ("op", "threshold"),
                    "# 4: neither": ("region", "aten._fft_r2c.default"), "# 4: NaN becomes": ("op", "nan_to_num"),
                    "# 4: NaN counts": ("op", "nansum"), "# 4: squares": ("region", "aten.linalg__powsum.default"),
                    "# 4: the same": ("region", "aten._foreach_powsum.Scalar"), "# 4: rounds": ("op", "copy_"),
                    "_StridedShard(0, split_factor=2)])  # 5": ("redistribute", None), "# 6:": ("redistribute", None),
                    "# 7:": ("region", "local_map._VariableFunctionsClass.neg"), "# 8:": ("op", "argmax"),
                    "# 9: other": ("op", "bernoulli_.float"), "rand_like(five)  # 9": ("op", "rand_like")}
        for text, (kind, wanted) in expected.items():
            site = line_with("torch_wrong_rows", text)
            found = [s for s in steps if s.get("site") == site and kind in s and (wanted is None or s[kind] == wanted)]
            self.assertTrue(found, (text, site))

    def test_llama_has_every_phase_and_its_gathers(self):
        steps = load("torch_llama")["steps"]
        self.assertEqual({s["phase"] for s in steps}, {"forward", "recompute", "backward", "optimizer"})
        gathers = [s for s in steps if s.get("region") == "fsdp_all_gather"]
        self.assertEqual(sum(s["phase"] == "forward" for s in gathers), 3)  # the root's, and one a layer
        reduced = [v["name"] for s in steps if s.get("region") == "fsdp_reduce_scatter" for v in s["out"]]
        parameters = [v["name"] for v in load("torch_llama")["values"] if v["role"] == "parameter"]
        self.assertEqual(sorted(reduced), sorted(f"grad.{name}" for name in parameters))

    def test_stages_send_what_the_next_one_receives(self):
        steps = load("torch_llama_stages")["steps"]
        passed = [(s["region"], s["stage"], s["phase"], s["bytes"]) for s in steps if s.get("region", "").startswith("stage_")]
        size = 2 * 64 * 256 * 4  # batch, length over tp, width, F32
        self.assertEqual(passed, [("stage_send", 0, "forward", size), ("stage_receive", 0, "backward", size),
                                  ("stage_receive", 1, "forward", size), ("stage_send", 1, "backward", size)])

    def test_tokens_travel_to_their_experts_and_back_in_both_directions(self):
        steps = load("torch_deepseek")["steps"]
        tokens = [s for s in steps if s.get("region") == "all_to_all" and s["out"][0]["shape"] == [512, 256]]
        self.assertEqual([s["phase"] for s in tokens], ["forward", "forward", "backward", "backward"])
        for step in tokens:  # of 512 rows of 256 F32, three quarters come from other ranks
            self.assertEqual(step["moves"][0]["bytes"], {"max": 512 * 256 * 4 * 3 // 4, "total": 8 * 512 * 256 * 4 * 3 // 4})
        self.assertEqual(sum(s.get("op") == "grouped_mm" for s in steps), 6)


class Table(unittest.TestCase):
    def test_rows_read_as_documented(self):
        parse = table().parse
        self.assertEqual(parse("silu_grad grad=grad_output self"), ("silu_grad", [("grad", "grad_output"), ("self", "self")], []))
        self.assertEqual(parse("dropout self | p seed:=0"), ("dropout", [("self", "self")], [("p", "p", None), ("seed", None, 0)]))

    def test_rows_name_ops_operands_and_attributes_of_the_engine(self):
        ops, module = engine_ops(), table()
        if ops is None:
            self.skipTest("placement-audit is not built (TESSERA_AUDIT names it)")
        for overload, row in module.ATEN.items():
            if row.startswith("@"):
                continue
            op, operands, attributes = module.parse(row)
            self.assertIn(op, ops, overload)
            names = [arg["name"] for arg in ops[op]["args"]]
            needed = [arg["name"] for arg in ops[op]["args"] if arg["kind"] != "optional"]
            given = [name for name, _ in operands]
            self.assertEqual(given, names[:len(given)], overload)
            self.assertLessEqual(set(needed), set(given), overload)
            known = {attr["name"]: attr for attr in ops[op]["attrs"]}
            self.assertLessEqual({name for name, _, _ in attributes}, set(known), overload)
            needed = {name for name, attr in known.items() if "default" not in attr}
            self.assertLessEqual(needed, {name for name, _, _ in attributes}, overload)

    def test_recorded_ops_are_ops_of_the_engine(self):
        ops = engine_ops()
        if ops is None:
            self.skipTest("placement-audit is not built (TESSERA_AUDIT names it)")
        for name in recorded.RECORDED:
            for step in load(name)["steps"]:
                if "op" in step:
                    op = ops[step["op"]]
                    self.assertLessEqual(set(step.get("attrs", {})), {attr["name"] for attr in op["attrs"]}, step)
                    self.assertLessEqual(len(step["args"]), len(op["args"]), step)


class WithoutTorch(unittest.TestCase):
    def test_what_is_missing_is_told_in_a_line(self):
        program = recorded.audit()
        if importlib.util.find_spec("torch"):
            self.skipTest("torch is installed")
        made = recorded.run("planted.py:build_router", "--mesh", "dp=2")
        self.assertEqual((made.returncode, made.stdout), (4, ""))
        self.assertRegex(made.stderr, r"^tessera_trace: \S+ has no torch; 2.9 or later is needed: pip install torch\n$")
        if program:
            again = recorded.started([program, "trace", "--torch", "planted.py:build_router", "--mesh", "dp=2"])
            self.assertEqual((again.returncode, again.stderr), (4, made.stderr))


if __name__ == "__main__":
    unittest.main()
