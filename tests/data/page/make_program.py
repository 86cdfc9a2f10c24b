#!/usr/bin/env python3
"""Writes the program of a training step of a transformer, FSDP over dp and tensor parallelism over tp, to stdout.

make_program.py LAYERS [folded|written] [RANKS]. A layer has 23 steps forward, backward and optimizer: 870 written layers
are 20,011 steps. Folded: one repeat forward and one backward, whatever the number of layers.
"""
import json
import sys

layers, form, ranks = int(sys.argv[1]), (sys.argv[2:] or ["written"])[0], int((sys.argv[3:] or ["64"])[0])
hidden, inner, tokens, tp = 4096, 14336, 8192, 8
WEIGHTS = {"attn.wq": ([hidden, hidden], 0), "attn.wo": ([hidden, hidden], 1), "mlp.up": ([inner, hidden], 0), "mlp.down": ([hidden, inner], 1)}


def value(name, shape, placements, dtype="BF16", **more):
    return {"name": name, "shape": shape, "dtype": dtype, "mesh": "m", "placements": placements, **more}


def weight_placements(dim):
    return ["SS(0,8)", "S(0)"] if dim == 0 else ["S(0)", "S(1)"]


def forward(i, x):
    at = f"layers.{i}"
    for name, (shape, dim) in WEIGHTS.items():
        yield {"redistribute": f"{at}.{name}.w", "to": ["R", f"S({dim})"], "out": f"{at}.{name}.full", "module": f"{at}.{name}",
               "site": "model.py:12", "phase": "forward", "from": "fully_shard"}
    sharded, whole, partial = ["S(0)", "S(1)"], ["S(0)", "R"], ["S(0)", "P(sum)"]
    for name, reads, shape, placements in [
            ("attn.wq", x, hidden, sharded), ("attn.wo", f"{at}.attn.wq", hidden, partial), ("attn.sum", f"{at}.attn.wo", None, whole),
            ("mlp.up", f"{at}.attn.sum", inner, sharded), ("mlp.down", f"{at}.mlp.up", hidden, partial)]:
        if shape is None:
            yield {"redistribute": reads, "to": whole, "out": f"{at}.{name}", "implicit": True, "for": "linear.input",
                   "module": f"{at}.attn", "site": "model.py:31", "phase": "forward"}
        else:
            yield {"region": "linear", "args": [reads, f"{at}.{name}.full"], "out": [value(f"{at}.{name}", [tokens, shape], placements)],
                   "module": f"{at}.{name}", "site": "model.py:30", "phase": "forward"}
    yield {"redistribute": f"{at}.mlp.down", "to": whole, "out": f"{at}.out", "module": at, "site": "model.py:35", "phase": "forward"}


def backward(i, grad):
    at = f"layers.{i}"
    for name in reversed(WEIGHTS):
        shape, dim = WEIGHTS[name]
        module = {"module": f"{at}.{name}", "site": "model.py:30", "phase": "backward"}
        yield {"region": "linear_grad", "args": [grad, f"{at}.{name}", f"{at}.{name}.w"],
               "out": [value(f"{at}.{name}.dw", shape, ["P(sum)", f"S({dim})"])], **module}
        yield {"redistribute": f"{at}.{name}.dw", "to": weight_placements(dim), "out": f"grad.{at}.{name}.w", **module}
    yield {"region": "residual_grad", "args": [grad, f"{at}.attn.sum"], "out": [value(f"{at}.grad", [tokens, hidden], ["S(0)", "R"])],
           "module": at, "site": "model.py:36", "phase": "backward"}


def update(i):
    at = f"layers.{i}"
    for name in WEIGHTS:
        yield {"op": "adamw_", "args": [f"{at}.{name}.w", f"grad.{at}.{name}.w", f"{at}.{name}.m", f"{at}.{name}.v"], "out": [],
               "attrs": {"lr": 0.001, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1, "step": 1},
               "module": f"{at}.{name}", "phase": "optimizer"}


numbers = ["*"] if form == "folded" else range(layers)
count = {"count": layers} if form == "folded" and layers > 1 else {}
values = [value("x", [tokens, hidden], ["S(0)", "R"], role="input")]
for i in numbers:
    for name, (shape, dim) in WEIGHTS.items():
        for suffix, role in (("w", "parameter"), ("m", "state"), ("v", "state")):
            values.append(value(f"layers.{i}.{name}.{suffix}", shape, weight_placements(dim), "F32", role=role,
                                module=f"layers.{i}.{name}", **count))
loss = {"region": "loss", "out": [value("grad.out", [tokens, hidden], ["S(0)", "R"])], "module": "loss", "site": "model.py:50", "phase": "backward"}
steps, at = [], "x"
if form == "folded":
    steps.append({"repeat": layers, "as": "layers", "steps": list(forward("*", "x")), "carry": {"x": "layers.*.out"}})
    steps.append({**loss, "args": ["x"]})
    steps.append({"repeat": layers, "first": layers - 1, "by": -1, "as": "layers", "steps": [*backward("*", "grad.out"), *update("*")], "carry": {"grad.out": "layers.*.grad"}})
else:
    for i in numbers:
        steps.extend(forward(i, at))
        at = f"layers.{i}.out"
    steps.append({**loss, "args": [at]})
    at = "grad.out"
    for i in reversed(numbers):
        steps.extend([*backward(i, at), *update(i)])
        at = f"layers.{i}.grad"
print(json.dumps({"version": 1, "name": f"a transformer of {layers} layers", "source": {"kind": "program", "by": "make_program.py"},
                  "ranks": ranks, "meshes": {"m": {"shape": [ranks // tp, tp], "axes": ["dp", "tp"]}}, "values": values, "steps": steps}))
