#!/usr/bin/env python3
"""Programs as jax writes them, for the tests of what reads StableHLO, and what jax's compiler makes them move.

Usage: scripts/jax_modules.py write FOLDER | check FOLDER | table FOLDER PLACEMENT_AUDIT | check_table FOLDER PLACEMENT_AUDIT

write: for each program NAME.mlir, the module as it is lowered, with locations; NAME.propagated.mlir, the same after Shardy's
propagation; NAME.moves.json, the collectives of the program that jax compiled for 8 devices. Needs jax (0.10.2 wrote those
that are kept); the devices are 8 of the processor. check: makes them anew and says which lines differ; exit code 1 where any do. Another
version of jax may print another text: then the figures of NAME.moves.json alone are compared. table: the table of
docs/stablehlo.md, from the files alone: what a rank receives by jax's own HLO, and what PLACEMENT_AUDIT says. check_table: exit
code 1 where that page has another.
"""
import difflib
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RANKS = 8
KINDS = ["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "exchange"]
BYTES = {"f64": 8, "s64": 8, "u64": 8, "f32": 4, "s32": 4, "u32": 4, "bf16": 2, "f16": 2, "s8": 1, "u8": 1, "pred": 1}


def numbers_of_groups(text, ranks):
    """How many groups of how many ranks each replica_groups says, in HLO's three forms."""
    if match := re.match(r"\{(\{[\d,{} ]*\})\}", text):
        groups = match.group(1).strip("{}").split("},{")
        return len(groups), len(groups[0].split(","))
    if match := re.match(r"\[(\d+),(\d+)\]<=", text):
        return int(match.group(1)), int(match.group(2))
    if match := re.match(r"mesh\[([^\]]*)\] \{([^}]*)\}", text):
        sizes = {axis.split("=")[0].strip(): int(axis.split("=")[1]) for axis in match.group(1).split(",")}
        size = 1
        for axis in match.group(2).split(","):
            size *= sizes[axis.strip()]
        return ranks // size, size
    return 1, ranks


def received(kind, local, result, elements, ranks):
    """Bytes that one rank receives, by the formulas of docs/redistribution.md."""
    if kind == "all_gather":
        return result * (ranks - 1) // ranks
    if kind == "all_reduce":
        # Each folds its part and hands it out; what has no part for each goes whole.
        return local * (ranks - 1) if elements % ranks else 2 * local * (ranks - 1) // ranks
    if kind in ("reduce_scatter", "all_to_all"):
        return local * (ranks - 1) // ranks
    return local


def rounds_of_computations(text):
    """How often each computation of a compiled program runs: a loop's body as often as the compiler knows."""
    computation, callers = "", {}
    for line in text.splitlines():
        if match := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(", line):
            computation = match.group(1)
        if match := re.search(r" while\(.*body=%?([\w.\-]+).*known_trip_count\":{\"n\":\"(\d+)\"", line):
            callers[match.group(1)] = (computation, int(match.group(2)))

    def rounds(name):
        caller, count = callers.get(name, (None, 1))
        return count if caller is None else count * rounds(caller)

    return rounds


def moves_of_hlo(text):
    """The collectives of a compiled program: one entry for each tensor that one moves."""
    moves, computation, rounds = [], "", rounds_of_computations(text)
    for line in text.splitlines():
        if match := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(", line):
            computation = match.group(1)
        match = re.search(r"= (.*?) (all-gather|reduce-scatter|all-reduce|all-to-all|collective-permute)(?:-start)?\((.*)", line)
        if not match:
            continue
        kind = match.group(2).replace("-", "_").replace("collective_permute", "exchange")
        groups = re.search(r"replica_groups=(.*)", match.group(3))
        count, ranks = numbers_of_groups(groups.group(1), RANKS) if groups else (1, RANKS)
        parts = []
        for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", match.group(1)):
            elements = 1
            for dim in filter(None, dims.split(",")):
                elements *= int(dim)
            parts.append((elements, elements * BYTES[dtype]))
        if kind == "all_to_all":
            parts = [(sum(part[0] for part in parts), sum(part[1] for part in parts))]
        scope = re.search(r'op_name="([^"]*)"', line)
        for elements, result in parts:
            local = result * ranks if kind == "reduce_scatter" else result
            moves.append({"collective": kind, "ranks": ranks, "groups": count, "rounds": rounds(computation), "scope": scope.group(1) if scope else "",
                          "bytes": received(kind, local, result, elements, ranks)})
    return moves


def make(folder):
    dumps = tempfile.mkdtemp()
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = (f"--xla_force_host_platform_device_count={RANKS} --xla_dump_to={dumps} "
                               "--xla_dump_hlo_pass_re=shardy")
    import jax
    jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")
    jax.config.update("jax_traceback_in_locations_limit", 1)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/data/stablehlo"))
    import layers
    for name, (function, arguments) in layers.programs(jax).items():
        lowered = layers.lower(jax, function, arguments)
        before = set(glob.glob(dumps + "/shardy/*"))
        compiled = lowered.compile()
        dumped = set(glob.glob(dumps + "/shardy/*")) - before
        propagated = glob.glob(min(dumped) + "/*after_propagation.mlir")
        assert len(dumped) == 1 and len(propagated) == 1, f"{name}: which dump is the propagated module?"
        (folder / f"{name}.mlir").write_text(lowered.as_text(debug_info=True))
        (folder / f"{name}.propagated.mlir").write_text(pathlib.Path(propagated[0]).read_text())
        moves = {"jax": jax.__version__, "moves": moves_of_hlo(compiled.as_text())}
        lines = ",\n".join("  " + json.dumps(move) for move in moves["moves"])
        (folder / f"{name}.moves.json").write_text(f'{{"jax": "{moves["jax"]}",\n "moves": [\n{lines}]}}\n')
    return jax.__version__


def check(folder):
    with tempfile.TemporaryDirectory() as made:
        version = make(pathlib.Path(made))
        kept = json.loads((folder / "mlp.moves.json").read_text())["jax"]
        wrong = 0
        for path in sorted(pathlib.Path(made).iterdir()):
            if version != kept and path.suffix != ".json":
                continue
            old, new = (folder / path.name).read_text(), path.read_text()
            if version != kept:
                old, new = ("\n".join(line for line in text.splitlines()[1:]) for text in (old, new))
            difference = list(difflib.unified_diff(old.splitlines(), new.splitlines(), "kept", "made anew", n=0, lineterm=""))
            if difference:
                wrong += 1
                print(f"{path.name} differs:", *difference[:20], sep="\n")
        print(f"jax {version}: {wrong} files differ from those of jax {kept}")
        return 1 if wrong else 0


def by_audit(path, audit):
    """Bytes that the rank with most receives, by collective."""
    traced = subprocess.run([audit, "trace", "--stablehlo", path], check=True, capture_output=True).stdout
    shown = json.loads(subprocess.run([audit, "show", "-"], input=traced, check=True, capture_output=True).stdout)
    sums = dict.fromkeys(KINDS, 0)
    calls = dict.fromkeys(KINDS, 0)
    for move in shown["cost"]["moves"]:
        sums[move["collective"]] += move["bytes"]["max"]
        calls[move["collective"]] += move["calls"]
    return sums, calls


def table(folder, audit):
    lines = ["| program | by | " + " | ".join(KINDS) + " | bytes in all |", "|---|---" + "|---:" * (len(KINDS) + 1) + "|"]

    def row(name, by, sums, calls):
        cells = [f"{sums[kind]:,} ({calls[kind]})" if calls[kind] else "" for kind in KINDS]
        lines.append(f"| {name} | {by} | " + " | ".join(cells) + f" | {sum(sums.values()):,} |")

    for path in sorted(folder.glob("*.moves.json")):
        name = path.name.removesuffix(".moves.json")
        sums, calls = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        for move in json.loads(path.read_text())["moves"]:
            sums[move["collective"]] += move["bytes"] * move["rounds"]
            calls[move["collective"]] += move["rounds"]
        row(name, "jax's HLO", sums, calls)
        row("", "placement-audit", *by_audit(folder / f"{name}.propagated.mlir", audit))
    return "\n".join(lines) + "\n"


def check_table(folder, audit):
    page = pathlib.Path(__file__).resolve().parent.parent / "docs/stablehlo.md"
    made = table(folder, audit)
    if made in page.read_text():
        return 0
    print(f"{page.name} has another table than this:", made, sep="\n")
    return 1


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "write":
        make(pathlib.Path(sys.argv[2]))
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        return check(pathlib.Path(sys.argv[2]))
    if len(sys.argv) == 4 and sys.argv[1] == "table":
        print(table(pathlib.Path(sys.argv[2]), sys.argv[3]), end="")
        return 0
    if len(sys.argv) == 4 and sys.argv[1] == "check_table":
        return check_table(pathlib.Path(sys.argv[2]), sys.argv[3])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
