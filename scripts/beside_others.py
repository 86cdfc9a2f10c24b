#!/usr/bin/env python3
"""What others tell of the three steps of docs/audit.md, for its section "Beside what others tell".

Usage: scripts/beside_others.py torch | jax | audit PLACEMENT_AUDIT [--check]

torch: CommDebugMode's table, and what DebugMode's text has of redistributions and collectives (torch 2.15, the steps of
python/tests/models on a fake group of 8 ranks). jax: the collectives of the compiled module's text, the shardings and pictures of what
beside_jax.py asks for (jax 0.10.2 and rich; 8 devices of the CPU). audit: `check` and the head of `memory` of the same steps as
recorded. --check: exit code 1 where tests/data/beside/ has another answer; a torch of another release is told as a skip.
"""
import contextlib
import difflib
import io
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "python/tests/models"
STEPS = {"split": "planted.py:build_implicit_gather", "router": "planted.py:build_router", "decoder": "decoder.py:build"}
RECORDED = {"split": "torch_implicit_gather", "router": "torch_router", "decoder": "torch_decoder"}
COLLECTIVE = re.compile(r"\b(?:_?c10d(?:_functional)?::_?(?:all_?gather|all_?reduce|reduce_?scatter|all_?to_?all)\w*)")


def words_for_sizes(text):
    """Whether a text says anything of bytes or memory: the words that it has."""
    found = sorted({word.lower() for word in re.findall(r"\b\w*(?:byte|memory|[KMG]iB)\w*", text, re.IGNORECASE)})
    return ", ".join(found) or "none"


def torch():
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "python/tests")]
    import executed
    import recorded
    import torch
    import torch.distributed as dist
    from tessera_trace.__main__ import _loaded
    from tessera_trace.step import step_from
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils._debug_mode import DebugMode

    if not torch.__version__.startswith(recorded.RELEASE + ".") and "--check" in sys.argv:
        print(f"skipped: what PyTorch tells: torch is {torch.__version__}, kept is what {recorded.RELEASE} said", file=sys.__stdout__)
        sys.exit(0)
    torch.set_num_threads(1)
    dist.init_process_group("fake", rank=0, world_size=8, store=FakeStore())
    mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    for name, program in STEPS.items():
        path, _, function = program.partition(":")
        with torch.device("meta"):
            step = step_from(_loaded(str(MODELS / path), function)(mesh), function)
        executed._fill(step)
        optimizer = step.optimizer(list(step.model.parameters()))
        executed._run(step, [optimizer])
        counted, debugged = CommDebugMode(), DebugMode(record_stack_trace=True, record_nn_module=True)
        with counted:
            executed._run(step, [optimizer])
        with debugged:
            executed._run(step, [optimizer])
        table = re.sub(r"\x1b\[[\d;]*m", "", counted.generate_comm_debug_tracing_table(noise_level=0))
        print(f"== {name} ({program}), CommDebugMode, noise_level=0", table.strip("\n"), "", sep="\n")
        everything = counted.generate_comm_debug_tracing_table(noise_level=3)
        print(f"words for bytes and memory, at any noise level: {words_for_sizes(everything)}\n")
        text = debugged.debug_string(show_stack_trace=True)
        print(f"== {name}, DebugMode: its lines of redistributions and collectives, each after the line of the stack above it")
        site = ""
        for line in map(str.strip, text.splitlines()):
            found = re.match(r"# File: (\S+):(\d+) in", line)
            if found and str(ROOT) in found[1]:
                site = f"{pathlib.Path(found[1]).name}:{found[2]}"
            elif line.startswith("redistribute_input [") or COLLECTIVE.match(line):
                print(f"{site}: {re.sub(r', ScriptObject.*', ', ...', line)}")
        print(f"words for bytes and memory: {words_for_sizes(text)}\n")


def lines_of_frames(text):
    """stack_frame_id: FILE:LINE, by the tables at the head of a compiled module's text."""
    files = dict(re.findall(r'^(\d+) "([^"]+\.py)"$', text, re.MULTILINE))
    at = {number: f"{pathlib.Path(files[file]).name}:{line}" for number, file, line in
          re.findall(r"^(\d+) \{file_name_id=(\d+) .*? line=(\d+) ", text, re.MULTILINE)}
    return {number: at[location] for number, location in re.findall(r"^(\d+) \{file_location_id=(\d+)", text, re.MULTILINE)}


def jax():
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["COLUMNS"] = "80"
    sys.path.insert(0, str(MODELS))
    import beside_jax
    import jax

    for name, (step, arguments) in beside_jax.programs().items():
        beside_jax.SEEN.clear()
        compiled = jax.jit(step).lower(*arguments).compile()
        text = compiled.as_text()
        frames = lines_of_frames(text)
        print(f"== {name} (beside_jax.py), the compiled module's text: collectives, the op's name, and the line of its frame")
        for line in text.splitlines():
            found = re.search(r"= (.*?) (all-gather|reduce-scatter|all-reduce|all-to-all|collective-permute)(?:-start)?\(", line)
            if found:
                op = re.search(r'op_name="([^"]*)"(?: stack_frame_id=(\d+))?', line)
                print(f"{frames.get(op[2], '?')}: {found[2]} {re.sub(r'{[^}]*}', '', found[1])}: {op[1]}")
        print(f"words for bytes and memory: {words_for_sizes(text)}")
        memory = compiled.memory_analysis()
        print(f"memory_analysis(): arguments {memory.argument_size_in_bytes}, results {memory.output_size_in_bytes}, "
              f"temporaries {memory.temp_size_in_bytes} bytes")
        for value, (shape, sharding) in beside_jax.SEEN.items():
            picture(jax, value, shape, sharding)
        if name == "split":
            picture(jax, "down", arguments[0]["down"].shape, arguments[0]["down"].sharding)
        print()


def picture(jax, name, shape, sharding):
    print(f"visualize_sharding of {name} {list(shape)}, {sharding.spec}:")
    try:
        jax.debug.visualize_sharding(shape, sharding, use_color=False)
    except ValueError as error:
        print(f"ValueError: {error}")


def audit(program):
    for name, recorded in RECORDED.items():
        path = ROOT / "tests/data/programs" / f"{recorded}.json"
        for command, lines in (("check", None), ("memory", 18)):
            ran = subprocess.run([program, command, path], capture_output=True, text=True, check=False)
            print(f"== {name} ({STEPS[name]}), placement-audit {command}, exit code {ran.returncode}")
            print(*ran.stdout.splitlines()[:lines], "", sep="\n")


def main():
    arguments = [each for each in sys.argv[1:] if each != "--check"]
    tools = {("torch",): torch, ("jax",): jax}
    if tuple(arguments) not in tools and (len(arguments) != 2 or arguments[0] != "audit"):
        print(__doc__, file=sys.stderr)
        return 2
    sys.dont_write_bytecode = True
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        audit(arguments[1]) if arguments[0] == "audit" else tools[tuple(arguments)]()
    text = "".join(line.rstrip() + "\n" for line in said.getvalue().splitlines())
    if "--check" not in sys.argv:
        print(text, end="")
        return 0
    kept = (ROOT / "tests/data/beside" / f"{arguments[0]}.txt").read_text(encoding="utf-8")
    print(*difflib.unified_diff(kept.splitlines(), text.splitlines(), "kept", "said now", n=1, lineterm=""), sep="\n")
    return int(text != kept)


if __name__ == "__main__":
    sys.exit(main())
