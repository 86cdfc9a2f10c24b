#!/usr/bin/env python3
"""Compares ops, forward and backward, with an installed PyTorch.

    python tests/outside/compare_with_torch.py build/release/bin/placement-audit [OP ...]

Every sample of an op (placement-audit ops --samples) is computed by PyTorch from the same values.
Then its document is executed again by placement-audit run with every operand cut over two ranks
where it can be, and the gradients of its floating operands are compared with PyTorch's. Ops that
PyTorch lacks, or spells otherwise, are listed with the reason. Exit code 1: a value differs.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool,
}
# Ours: ATen's name with its overload, and attributes that are spelt otherwise.
SPELT = {
    "pow": ("pow.Tensor_Scalar", {}), "pow_tensor": ("pow.Tensor_Tensor", {}),
    "clamp_tensor": ("clamp.Tensor", {}), "masked_fill": ("masked_fill.Scalar", {}),
    "masked_fill_tensor": ("masked_fill.Tensor", {}), "lerp_scalar": ("lerp.Scalar", {}),
    "scatter_value": ("scatter.value", {}), "index_fill": ("index_fill.int_Scalar", {}),
    "scatter": ("scatter.src", {}), "where": ("where.self", {}),
    "bitwise_left_shift": ("bitwise_left_shift.Tensor", {}),
    "bitwise_right_shift": ("bitwise_right_shift.Tensor", {}),
    "repeat_interleave": ("repeat_interleave.self_int", {}),
    "to": ("_to_copy", {}),
}
# PyTorch leaves open which of equal elements they name; here the lower index wins.
TIES_ARE_OPEN = ("topk", "kthvalue", "mode", "median_dim", "nanmedian_dim")
# Its gradient is infinite where dim=[].
WRONG_GRADIENT = ("std", "std_mean", "var", "var_mean")
# Random values and uninitialised memory are nobody's reference.
RANDOM = ("bernoulli", "cauchy", "dropout", "empty", "exponential", "geometric", "log_normal",
          "multinomial", "native_dropout", "normal", "rand", "truncated_normal", "uniform",
          "new_empty", "random_")


def number(value):
    return float(value) if isinstance(value, str) else value


def tensor_of(entry, values):
    dtype = DTYPES[entry["dtype"]]
    flat = torch.tensor([number(v) for v in values], dtype=torch.float64)
    return flat.to(dtype).reshape(entry["shape"])


class Unlike(Exception):
    """PyTorch has no op that takes this call."""


def value_of(attr):
    if isinstance(attr, str):
        return DTYPES.get(attr, float(attr) if attr in ("inf", "-inf", "nan") else attr)
    return attr


def overloads_of(name):
    if name in SPELT:
        packet, overload = SPELT[name][0].split(".") if "." in SPELT[name][0] else (
            SPELT[name][0], "default")
        return [getattr(getattr(torch.ops.aten, packet), overload)]
    scalar = name.endswith("_scalar") or name.endswith("_scalar_")
    base = name.replace("_scalar", "") if scalar else name
    packet = getattr(torch.ops.aten, base, None)
    if packet is None:
        raise Unlike("no op of that name")
    names = packet.overloads()
    if scalar:
        names = [o for o in names if "Scalar" in o]
    return [getattr(packet, o) for o in sorted(names, key=lambda o: (o != "default", o))]


def arguments_for(schema, tensors, names, attrs):
    """Positional tensors by the schema's tensor arguments, attributes by name."""
    left, kwargs = list(tensors), {}
    given = dict(attrs)
    for arg in schema.arguments:
        kind = str(arg.type)
        takes_tensor = "Tensor" in kind
        if takes_tensor and left:
            value = left.pop(0)
            if isinstance(value, list) != ("List" in kind or "[]" in kind):
                raise Unlike("lists stand elsewhere")
            kwargs[arg.name] = value
        elif arg.name in given:
            kwargs[arg.name] = given.pop(arg.name)
        elif "value" in given and arg.name in ("other", "exponent", "scalar") and not takes_tensor:
            kwargs[arg.name] = given.pop("value")
        elif not arg.has_default_value() and arg.name not in ("out",):
            raise Unlike(f"argument {arg.name}")
    if left:
        raise Unlike("more operands")
    for name, value in given.items():
        if value is not None:
            raise Unlike(f"attribute {name}")
    return kwargs


def sized(attrs, *names):
    """Attributes of windows as PyTorch takes them: an empty list is its default."""
    given = {n: attrs[n] for n in names if n in attrs}
    return {n: v for n, v in given.items() if v != []}


def loss(function, **more):
    return lambda t, a: function(t[0], t[1], reduction=a["reduction"],
                                 **{k: a[k] for k in more if k in a})


def pool(function, spatial, *names):
    """Windows over the last dims; leading dims that PyTorch does not take are flattened."""
    def call(t, a):
        x = t[0]
        lead = x.shape[:x.dim() - spatial]
        out = function(x.reshape(-1, 1, *x.shape[x.dim() - spatial:]), **sized(a, *names))
        whole = lambda y: y.reshape(*lead, *y.shape[2:])
        return tuple(whole(y) for y in out) if isinstance(out, tuple) else whole(out)
    return call


def averaged(function, spatial):
    names = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    def call(t, a):
        overridden = a.get("divisor_override")
        if overridden and spatial == 1:
            return None
        return pool(function, spatial, *names, *(["divisor_override"] if overridden else []))(t, a)
    return call


def upsampled(spatial):
    return pool(lambda x, output_size: F.interpolate(x, size=output_size), spatial, "output_size")


def maybe(t, i):
    return t[i] if i < len(t) else None


def placed(t, a, first):
    index = [slice(None)] * t[0].dim()
    for dim, tensor in zip(a["dims"] or range(len(t[first])), t[first]):
        index[dim] = tensor
    return tuple(index)


F = torch.nn.functional
MAX_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
TRANSPOSED = ("stride", "padding", "output_padding", "dilation")
# What ATen spells otherwise, or as a function of several ops.
FUNCTIONS = {
    "avg_pool1d": averaged(F.avg_pool1d, 1), "avg_pool2d": averaged(F.avg_pool2d, 2),
    "max_pool1d": pool(F.max_pool1d, 1, *MAX_POOL), "max_pool2d": pool(F.max_pool2d, 2, *MAX_POOL),
    "max_pool1d_with_indices": pool(F.max_pool1d_with_indices, 1, *MAX_POOL),
    "max_pool2d_with_indices": pool(F.max_pool2d_with_indices, 2, *MAX_POOL),
    "upsample_nearest1d": upsampled(1), "upsample_nearest2d": upsampled(2),
    "conv_transpose1d": lambda t, a: F.conv_transpose1d(
        t[0], t[1], maybe(t, 2), groups=a["groups"], **sized(a, *TRANSPOSED)),
    "conv_transpose2d": lambda t, a: F.conv_transpose2d(
        t[0], t[1], maybe(t, 2), groups=a["groups"], **sized(a, *TRANSPOSED)),
    "binary_cross_entropy": loss(F.binary_cross_entropy),
    "binary_cross_entropy_with_logits": loss(F.binary_cross_entropy_with_logits),
    "huber_loss": loss(F.huber_loss, delta=0), "smooth_l1_loss": loss(F.smooth_l1_loss, beta=0),
    "kl_div": loss(F.kl_div, log_target=0), "l1_loss": loss(F.l1_loss),
    "mse_loss": loss(F.mse_loss),
    "cross_entropy": lambda t, a: F.cross_entropy(
        t[0].flatten(0, -2), t[1].flatten(), reduction="none").reshape(t[1].shape),
    "layer_norm": lambda t, a: F.layer_norm(t[0], t[0].shape[-1:], maybe(t, 1), maybe(t, 2),
                                            a["eps"]),
    "rms_norm": lambda t, a: F.rms_norm(t[0], t[0].shape[-1:], t[1], a["eps"]),
    "group_norm": lambda t, a: F.group_norm(t[0], a["num_groups"], maybe(t, 1), maybe(t, 2),
                                            a["eps"]),
    "batch_norm": lambda t, a: F.batch_norm(t[0], None, None, maybe(t, 1), maybe(t, 2), True, 0.0,
                                            a["eps"]),
    "instance_norm": lambda t, a: F.instance_norm(t[0], None, None, maybe(t, 1), maybe(t, 2), True,
                                                  0.0, a["eps"]),
    "softmin": lambda t, a: F.softmin(t[0], a["dim"]), "softsign": lambda t, a: F.softsign(t[0]),
    "tanhshrink": lambda t, a: F.tanhshrink(t[0]),
    "max_dim": lambda t, a: tuple(torch.max(t[0], a["dim"], a["keepdim"])),
    "min_dim": lambda t, a: tuple(torch.min(t[0], a["dim"], a["keepdim"])),
    "median_dim": lambda t, a: tuple(torch.median(t[0], a["dim"], a["keepdim"])),
    "nanmedian_dim": lambda t, a: tuple(torch.nanmedian(t[0], a["dim"], a["keepdim"])),
    "index": lambda t, a: t[0][placed(t, a, 1)],
    "index_put": lambda t, a: t[0].index_put(
        placed(t, a, 2)[:len(t[2])], t[1], a["accumulate"]) if sorted(
            a["dims"] or range(len(t[2]))) == list(range(len(t[2]))) else None,
    "repeat_interleave_tensor": lambda t, a: torch.repeat_interleave(t[0], t[1], a.get("dim")),
    "scaled_dot_product_attention": lambda t, a: F.scaled_dot_product_attention(
        t[0], t[1], t[2], maybe(t, 3), is_causal=a["is_causal"], scale=a["scale"] or None,
        enable_gqa=a["enable_gqa"]),
    "swiglu": lambda t, a: F.silu(t[0]) * t[1],
    "sum_of_squares": lambda t, a: (t[0] * t[0]).sum(a.get("dim") or None, a.get("keepdim", False)),
    "scalar_pow": lambda t, a: torch.pow(a.get("self", a.get("value")), t[0]),
}


def whole_numbers(tensors, attrs):
    """A scalar attribute is a double here; with integer operands PyTorch is given an int."""
    integral = all(not t.is_floating_point() for t in tensors if isinstance(t, torch.Tensor))
    return {k: int(v) if integral and isinstance(v, float) and v == int(v) else v
            for k, v in attrs.items()} if integral else attrs


def call_torch(name, tensors, names, attrs):
    reasons = []
    attrs = whole_numbers(tensors, attrs)
    if name in FUNCTIONS:
        result = FUNCTIONS[name](tensors, attrs)
        if result is None:
            raise Unlike("these attributes")
        return result
    for overload in overloads_of(name):
        if "out" in overload._overloadname:
            continue
        try:
            kwargs = arguments_for(overload._schema, tensors, names, attrs)
            return overload(**kwargs)
        except Unlike as reason:
            reasons.append(str(reason))
        except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError) as error:
            reasons.append(str(error).split("\n")[0])
    raise Unlike(reasons[0] if reasons else "no overload")


def as_list(result):
    return [r for r in (result if isinstance(result, (tuple, list)) else [result])]


def differs(ours, theirs, tolerance=1e-9):
    if list(ours.shape) != list(theirs.shape):
        return f"shape {list(ours.shape)}, theirs {list(theirs.shape)}"
    if ours.dtype != theirs.dtype:
        return f"dtype {ours.dtype}, theirs {theirs.dtype}"
    a, b = ours.double(), theirs.double()
    wrong = ~torch.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if not wrong.any():
        return ""
    at = wrong.nonzero()[0].tolist()
    return f"element {at}: {a[tuple(at)].item()}, theirs {b[tuple(at)].item()}"


def operands_of(document):
    inputs = {name: tensor_of(entry, entry["local"][0]) for name, entry in
              document["inputs"].items()}
    step = document["program"][0]
    take = lambda arg: None if arg is None else [inputs[a] for a in arg] if isinstance(
        arg, list) else inputs[arg]
    return inputs, [take(arg) for arg in step["args"]]


def attributes_of(step):
    attrs = {k: value_of(v) for k, v in step["attrs"].items()}
    # An empty list of dims means all of them here; for any and all PyTorch reads it as none.
    if step["op"] in ("any", "all") and attrs.get("dim") == []:
        attrs["dim"] = None
    return attrs


def compare_forward(document):
    step = document["program"][0]
    _, tensors = operands_of(document)
    attrs = attributes_of(step)
    copies = [[t.clone() for t in x] if isinstance(x, list) else x.clone() if x is not None else x
              for x in tensors]
    theirs = as_list(call_torch(step["op"], copies, step["args"], attrs))
    theirs = [t for t in theirs if isinstance(t, torch.Tensor)]
    expect = document["expect"]
    if len(theirs) < len(expect):
        raise Unlike(f"{len(theirs)} results")
    for (name, entry), their in zip(expect.items(), theirs):
        ours = tensor_of(entry, entry["values"])
        if step["op"] in TIES_ARE_OPEN and not tensors[0].is_floating_point() and name == "out1":
            continue
        problem = differs(ours, their)
        if problem:
            return f"{name}: {problem}"
    return ""


def cut_document(document, grads, cotangent):
    """The same call over two ranks, the largest operand cut along its first dim, and backward."""
    cut = json.loads(json.dumps(document))
    cut["mesh"] = {"shape": [2], "axes": ["x"]}
    for entry in cut["inputs"].values():
        entry["values"] = entry.pop("local")[0]
        entry["placements"] = ["S(0)"] if entry["shape"] and entry["dtype"][0] != "B" else ["R"]
    shape = cut["expect"]["out0"]["shape"]
    cut["inputs"]["cotangent"] = {"shape": shape, "dtype": "F64", "placements": ["R"],
                                  "values": cotangent.flatten().tolist()}
    cut["program"].append({"backward": "out0", "cotangent": "cotangent", "grads": grads})
    return cut


def compare_backward(audit, document):
    step, first = document["program"][0], document["expect"].get("out0")
    inputs, _ = operands_of(document)
    grads = [n for n, t in inputs.items() if t.dtype == torch.float64]
    if first is None or first["dtype"] != "F64" or not grads or step["op"].endswith("_"):
        return None
    for name in grads:
        inputs[name].requires_grad_(True)
    take = lambda arg: None if arg is None else [inputs[a] for a in arg] if isinstance(
        arg, list) else inputs[arg]
    attrs = attributes_of(step)
    result = as_list(call_torch(step["op"], [take(a) for a in step["args"]], step["args"],
                                attrs))[0]
    if not result.requires_grad:
        return None
    torch.manual_seed(1)
    cotangent = torch.rand(result.shape, dtype=torch.float64) - 0.5
    try:
        theirs = torch.autograd.grad(result, [inputs[n] for n in grads], cotangent,
                                     allow_unused=True)
    except RuntimeError:  # a derivative that PyTorch has for some operands only, or not at all
        return None
    with tempfile.TemporaryDirectory() as folder:
        saved = os.path.join(folder, "out.safetensors")
        run = subprocess.run([audit, "run", "--save", saved],
                             input=json.dumps(cut_document(document, grads, cotangent)),
                             capture_output=True, text=True, check=False)
        if "has no gradient" in run.stderr:
            return None
        if run.returncode != 0:
            return run.stderr.strip().replace("\n", " ")
        ours = load_file(saved)
    if step["op"] in WRONG_GRADIENT and attrs.get("dim") == []:
        return None
    for name, their in zip(grads, theirs):
        their = torch.zeros_like(inputs[name]) if their is None else their
        mine = ours.get("grad." + name)
        mine = torch.zeros_like(their) if mine is None else mine
        problem = differs(mine, their, tolerance=1e-8)
        if problem:
            return f"grad.{name}: {problem}"
    return ""


def main():
    audit, ops = sys.argv[1], sys.argv[2:]
    lines = subprocess.run([audit, "ops", "--samples", *ops], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    compared, backward, unlike, wrong = {}, {}, {}, []
    for line in lines:
        document = json.loads(line)
        op = document["program"][0]["op"]
        if op.startswith(RANDOM):
            unlike[op] = "random, or uninitialised"
            continue
        where = f"{op} {[e['shape'] for e in document['inputs'].values()]} {document['program'][0]['attrs']}"
        try:
            problem = compare_forward(document)
            compared[op] = compared.get(op, 0) + 1
            if problem:
                wrong.append(f"{where}: {problem}")
                continue
            problem = compare_backward(audit, document)
            if problem is not None:
                backward[op] = backward.get(op, 0) + 1
            if problem:
                wrong.append(f"{where}: {problem}")
        except Unlike as reason:
            unlike.setdefault(op, str(reason))
    for text in wrong:
        print("DIFFERS", text)
    for op, reason in sorted(unlike.items()):
        if op not in compared:
            print("not compared", op + ":", reason)
    print(f"{len(compared)} ops, {sum(compared.values())} samples compared forward; "
          f"{len(backward)} ops, {sum(backward.values())} samples backward over two ranks; "
          f"{len(wrong)} differ; {len(unlike.keys() - compared.keys())} ops not compared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
