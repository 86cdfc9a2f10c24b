#!/usr/bin/env python3
"""What placement-audit export writes as Shardy's text is what jax's own parser takes, and says the same printed by it again.

Usage: tests/outside/check_shardy.py PLACEMENT_AUDIT FOLDER

For each module of FOLDER that Shardy has propagated (NAME.propagated.mlir): the program that placement-audit reads is exported,
parsed and verified by jax's MLIR, printed by it, and read by placement-audit once more: every value lies where it lay. Needs jax.
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def audit(program, *arguments):
    ran = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{' '.join(map(str, arguments))}: exit code {ran.returncode}: {ran.stderr}")
    return ran.stdout


def printed_again(text):
    """By jax's MLIR, which checks it on the way."""
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        module.operation.verify()
        return module.operation.get_asm(enable_debug_info=True)


def placements(text):
    """Of every value in order: its mesh and where it lies there. Names may be other ones."""
    program = json.loads(text)
    values = list(program["values"])

    def collect(steps):
        for step in steps:
            if "repeat" in step:
                collect(step["steps"])
            elif "redistribute" in step:
                values.append({"mesh": step.get("mesh"), "placements": step["to"]})
            else:
                values.extend(step.get("out", []))

    collect(program["steps"])
    return [json.dumps(value.get("layout") or value.get("placements")) for value in values]


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    paths = sorted(folder.glob("*.propagated.mlir"))
    with tempfile.TemporaryDirectory() as scratch:
        saved = pathlib.Path(scratch)
        for path in paths:
            (saved / "run.json").write_text(audit(program, "trace", "--stablehlo", path))
            written = audit(program, "export", saved / "run.json", "--format", "shardy")
            (saved / "ours.mlir").write_text(written)
            (saved / "again.mlir").write_text(printed_again(written))
            ours = placements(audit(program, "trace", "--stablehlo", saved / "ours.mlir"))
            again = placements(audit(program, "trace", "--stablehlo", saved / "again.mlir"))
            if ours != again or len(ours) < 4:
                sys.exit(f"{path.name}: {len(ours)} values as written, {len(again)} printed again; they lie otherwise")
            print(f"{path.name}: {len(ours)} values")
    if not paths:
        sys.exit(f"{folder}: no *.propagated.mlir")


if __name__ == "__main__":
    main()
