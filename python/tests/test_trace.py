"""tessera_trace itself, which needs torch: recorded programs come out the same, and what cannot be traced is told."""
import importlib.util
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorded  # noqa: E402

MISTAKES = '''import torch
def build(mesh):
    def inner():
        raise KeyError("no such layer")
    inner()
def odd(mesh):
    return 3
def unknown(mesh):
    return {"model": torch.nn.Linear(2, 2), "inputz": ()}
def no_loss(mesh):
    return torch.nn.Linear(2, 2), torch.empty(3, 2)
def bad_axis(mesh):
    return {"model": torch.nn.Linear(2, 2), "inputs": torch.empty(3, 2), "batch_axes": "zz"}
def stages(mesh):
    return [(torch.nn.Linear(2, 2), torch.empty(3, 2))]
def reads(mesh):
    class Reader(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x)[: int(x.sum())].sum()
    return {"model": Reader(2, 2), "inputs": torch.empty(3, 2), "on_read": lambda site, shape, dtype: 2, "scenario": "worst",
            "optimizer": lambda p: torch.optim.Adam(p, foreach=True)}
'''


NORMED = '''import torch
def build(mesh):
    class Normed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)
        def forward(self, x):
            return (self.norm(x) * 0.5).sum()
    return {"model": Normed(), "inputs": torch.empty(4, 8, 16)}
'''


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Traces(unittest.TestCase):
    maxDiff = 2000

    def test_recorded_programs_come_out_the_same(self):
        import torch

        if not torch.__version__.startswith(recorded.RELEASE + "."):
            self.skipTest(f"torch is {torch.__version__}, recorded was {recorded.RELEASE}")
        with tempfile.TemporaryDirectory() as folder:
            for name in recorded.RECORDED:
                made = recorded.make(name, folder)
                self.assertEqual(made.returncode, 0, made.stderr)
                with open(recorded.path_of(name), "rb") as old, open(recorded.path_of(name, folder), "rb") as new:
                    self.assertEqual(new.read() == old.read(), True, f"{name} differs: python/tests/recorded.py writes it anew")

    def test_layer_norm_has_the_shapes_of_the_engines_op(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "normed.py"), "w") as file:
                file.write(NORMED)
            made = recorded.run("normed.py:build", "--mesh", "dp=1", folder=folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        shapes = {step["op"]: [out["shape"] for out in step["out"]] for step in json.loads(made.stdout)["steps"] if "op" in step}
        self.assertEqual(shapes["layer_norm"], [[4, 8, 16], [4, 8], [4, 8]])
        self.assertEqual(shapes["layer_norm_grad"], [[4, 8, 16], [16], [16]])

    def test_wrong_rows_of_older_releases_are_gathered_first_or_refused(self):
        import torch

        if not torch.__version__.startswith(recorded.RELEASE + "."):
            self.skipTest(f"torch is {torch.__version__}, and what is told here is what {recorded.RELEASE} does")
        made = recorded.run("wrong_rows.py:build_max_dim", "--mesh", "dp=2,tp=2")
        self.assertEqual(made.returncode, 0, made.stderr)
        steps = json.loads(made.stdout)["steps"]
        at = next(at for at, step in enumerate(steps) if step.get("op") == "max_dim")
        self.assertEqual([(s["to"], s["for"]) for s in steps[:at] if s.get("out") == steps[at]["args"][0]], [(["R"], "max_dim.self")])
        made = recorded.run("wrong_rows.py:build_clamp", "--mesh", "dp=2,tp=2")
        self.assertEqual(made.returncode, 2, made.stdout)
        self.assertIn("aten.clamp_.default: in-place operations that require placement changes are not supported", made.stderr)

    def test_a_model_comes_out_the_same_twice_on_any_release(self):
        made = [recorded.run("deepseek.py:build", "--mesh", "dp=2,ep=4") for _ in range(2)]
        self.assertEqual(made[0].returncode, 0, made[0].stderr)
        self.assertEqual(made[0].stdout, made[1].stdout)
        self.assertRegex(made[0].stderr, r"\((9[89]|100)\.\d %\)")

    def test_the_table_names_overloads_and_arguments_of_torch(self):
        sys.path.insert(0, os.path.dirname(recorded.HERE))
        import torch

        from tessera_trace import aten_special, aten_table

        for overload, row in aten_table.ATEN.items():
            name, kind = overload.split(".")
            found = getattr(torch.ops.aten, name, None)
            if found is None or kind not in found.overloads():
                continue  # of another release of torch
            if row.startswith("@"):
                self.assertIn(row[1:], aten_special.SPECIAL, overload)
                continue
            names = {argument.name for argument in getattr(found, kind)._schema.arguments}
            _, operands, attributes = aten_table.parse(row)
            for _, theirs in operands:
                self.assertIn(theirs, names, overload)
            for _, theirs, constant in attributes:
                self.assertTrue(constant is not None or theirs in names, overload)

    def mistake(self, function, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mistakes.py"), "w", encoding="utf-8") as file:
                file.write(MISTAKES)
            made = recorded.run(f"mistakes.py:{function}", *(arguments or ("--mesh", "dp=2")), folder=folder)
        return made.returncode, made.stdout, made.stderr

    def test_a_build_function_that_fails_is_told_by_its_own_traceback(self):
        code, out, err = self.mistake("build")
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(err, r'(?s)mistakes.py", line 5, in build.*line 4, in inner.*KeyError: \'no such layer\'\n'
                              r'tessera_trace: build \(mistakes.py:2\), called as build\(mesh\), failed '
                              r'\(called at tessera_trace/session.py:\d+\)\n$')

    def test_what_cannot_be_traced_is_one_line_that_says_what_is_allowed(self):
        for function, text in (
                ("odd", "odd (mistakes.py:6) returned an int; allowed: a Step"),
                ("unknown", "returned a dict with unknown key 'inputz'; allowed: model, inputs"),
                ("no_loss", "the step's output has shape [3, 2]; allowed: a loss of one element"),
                ("bad_axis", "bad_axis (mistakes.py:12): batch_axes has 'zz'; allowed: dp"),
                ("stages", "returned 1 stages; the mesh has 2 along pp"),
                ("nothing", "mistakes.py: nothing: there is no such name; functions there: bad_axis, build")):
            mesh = "pp=2,dp=2" if function == "stages" else "dp=2"
            code, out, err = self.mistake(function, "--mesh", mesh)
            self.assertEqual((code, out, err.count("\n")), (3, "", 1), err)
            self.assertIn(text, err)

    def test_the_command_line_is_checked(self):
        for arguments, text in ((("--mesh", "dp=0"), "axis 'dp' has size 0"), (("--mesh", "dp=2,dp=2"), "given twice"),
                                (("--mesh", "dp=x"), "size 'x'"), ((), "required: --mesh")):
            code, _, err = self.mistake("odd", *(arguments or ("--name", "x")))
            self.assertEqual(code, 2)
            self.assertIn(text, err)
        code, _, err = self.mistake("reads", "--mesh", "dp=2", "-o", "no/such/folder.json")
        self.assertEqual((code, err), (4, "tessera_trace: no/such/folder.json: No such file or directory\n"))

    def test_placement_audit_runs_it(self):
        program = recorded.audit()
        if not program:
            self.skipTest("placement-audit is not built (TESSERA_AUDIT names it)")
        arguments = ["planted.py:build_router", "--mesh", "dp=2,tp=4"]
        traced = recorded.started([program, "trace", "--torch", *arguments])
        self.assertEqual(traced.returncode, 0, traced.stderr)
        self.assertEqual(traced.stdout, recorded.run(*arguments).stdout)
        failed = recorded.started([program, "trace", "--torch", "planted.py:none", "--mesh", "dp=2"])
        self.assertEqual((failed.returncode, failed.stdout), (3, ""))
        self.assertIn("planted.py: none: there is no such name", failed.stderr)

    def test_what_the_host_reads_takes_the_scenario(self):
        code, out, err = self.mistake("reads")
        self.assertEqual(code, 0, err)
        self.assertIn('"scenario":{"routing":"worst"}', out)
        self.assertIn('{"host_read":"sum","bytes":4', out)
        self.assertIn('"op":"slice"', out)
        self.assertIn('"shape":[2,2]', out)


if __name__ == "__main__":
    unittest.main()
