#!/usr/bin/env python3
"""What the audit of a training step costs: seconds of processor (the least of the runs) and MiB of memory (the most) of
`placement-audit trace`, `check`, `diff` (with itself), `memory` and the page of `show`, for DeepSeek-V3 671B's config
with 1 and 61 layers, one rank of 8, 2,048 and 16,384, as a Markdown table. The step is of 256 sequences, on 8 ranks of 8.

    python3 benchmarks/program_costs.py build/release/bin/placement-audit [--runs 3] [--layers 1,61] [--ranks 8,2048,16384]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "deepseek_v3_671b.json"
# Degrees for each number of ranks: all layers on one stage of 8 ranks, else 16 stages where there are so many layers.
DEGREES = {
    8: {"dp_shard": 8, "ep": 8},
    2048: {"dp_shard": 16, "tp": 8, "ep": 64, "pp": 16, "pp_microbatches": 16},
    16384: {"dp_shard": 128, "tp": 8, "ep": 64, "pp": 16, "pp_microbatches": 16},
}


def degrees(ranks, layers):
    chosen = dict(DEGREES[ranks])
    stages = chosen.get("pp", 1)
    if layers < stages:
        chosen["dp_shard"] *= stages
        del chosen["pp"], chosen["pp_microbatches"]
    return chosen


def run(command):
    """Seconds of processor and MiB of one run; its failure is ours."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):  # 1: a check that failed, which costs as much
        sys.exit(f"{' '.join(map(str, command))}: exit code {code}: {text.decode()}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def cost(command, runs):
    seen = [run(command) for _ in range(runs)]
    return f"{min(s for s, _ in seen):.2f} s, {max(m for _, m in seen):.0f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("audit")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", default="1,61")
    parser.add_argument("--ranks", default="8,2048,16384")
    args = parser.parse_args()
    config = json.loads(CONFIG.read_text())
    print("| layers | ranks | steps | `trace` | `check` | `diff` | `memory` | page |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for layers in map(int, args.layers.split(",")):
            file = Path(folder) / "config.json"
            for ranks in map(int, args.ranks.split(",")):
                sizes = {"n_layers": layers, "n_dense_layers": min(3, layers - 1), "batch": min(256, ranks)}
                file.write_text(json.dumps(config | sizes))
                parallel = json.dumps(degrees(ranks, layers))
                program, page = Path(folder) / "run.json", Path(folder) / "page.html"
                trace = [args.audit, "trace", "--train", file, "--parallel", parallel, "--ranks", str(ranks),
                         "--simulate-rank", str(ranks // 2 + 5 if ranks > 8 else 0), "--dtype", "BF16", "-o", program]
                cells = [cost(trace, args.runs)]
                steps = program.read_text().count('"phase":')
                cells += [cost([args.audit, "check", program], args.runs),
                          cost([args.audit, "diff", program, program], args.runs),
                          cost([args.audit, "memory", program], args.runs),
                          cost([args.audit, "show", program, "--format", "html", "--output", page], args.runs)
                          + f", file of {page.stat().st_size / 1e6:.1f} MB"]
                print(f"| {layers} | {ranks:,} | {steps:,} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
