"""Random ops: whatever the cut, equal seeds and streams give equal values of the stated distribution."""
import numpy as np

import dtypes
from judge import Finding
from operands import listed

N = 1500  # elements, of a vector
LAYOUTS = (([1], ["R"]), ([2], ["S(0)"]), ([3], ["R"]), ([4], ["S(0)"]), ([2, 2], ["S(0)", "S(0)"]),
           ([2, 3], ["R", "S(0)"]))


def within(value, wanted, spread, what):
    """A statistic of N values within six standard errors."""
    if not abs(value - wanted) <= 6 * spread / np.sqrt(N):
        raise Finding("statistics", f"{what} is {value}, expected about {wanted}")


def holds(condition, what):
    if not np.all(condition):
        raise Finding("value", what)


def whole(a):
    holds(a == np.trunc(a), "numbers that are not whole")


def check_normal(a, x, attrs):
    within(a.mean(), attrs.get("mean", 0.0), attrs.get("std", 1.0), "the mean")
    within(a.var(), attrs.get("std", 1.0) ** 2, attrs.get("std", 1.0) ** 2 * 1.5, "the variance")


def check_uniform(a, x, attrs):
    low, high = attrs.get("from", 0.0), attrs.get("to", 1.0)
    holds((a >= low) & (a < high), f"numbers outside [{low}, {high})")
    within(a.mean(), (low + high) / 2, (high - low) * 0.3, "the mean")


def check_integers(a, x, attrs):
    low, high = attrs.get("from", attrs.get("low")), attrs.get("to", attrs.get("high"))
    whole(a)
    holds((a >= low) & (a < high), f"numbers outside [{low}, {high})")
    within(a.mean(), (low + high - 1) / 2, (high - low) * 0.3, "the mean")


def check_bernoulli(a, x, attrs):
    p = attrs.get("p", x)
    holds((a == 0) | (a == 1), "numbers other than 0 and 1")
    within((a - p).mean(), 0.0, 0.5, "the mean beyond p")


def check_dropout(a, x, attrs):
    keep = 1 - attrs["p"] if attrs["train"] else 1.0
    scaled = np.abs(a - x / keep) <= 1e-6 * np.abs(x / keep)
    holds((a == 0) | scaled, "elements that are neither 0 nor scaled")
    within((a != 0).mean(), keep, 0.5, "the share that stays")


def check_truncated(a, x, attrs):
    holds((a >= attrs["low"]) & (a <= attrs["high"]), "numbers outside the bounds")
    within(a.mean(), 0.0, 1.0, "the mean")


def check_positive(mean, spread):
    def check(a, x, attrs):
        holds(a > 0, "numbers that are not positive")
        within(a.mean(), mean(attrs), spread(attrs), "the mean")
    return check


def check_geometric(a, x, attrs):
    whole(a)
    check_positive(lambda at: 1 / at["p"], lambda at: 1 / at["p"])(a, x, attrs)


def check_log_normal(a, x, attrs):
    holds(a > 0, "numbers that are not positive")
    check_normal(np.log(a), x, attrs)


def check_cauchy(a, x, attrs):
    within((a > attrs["median"]).mean(), 0.5, 0.5, "the share above the median")
    within((np.abs(a - attrs["median"]) < attrs["sigma"]).mean(), 0.5, 0.5, "the share within sigma")


def check_permutation(a, x, attrs):
    holds(np.sort(a) == np.arange(a.size), "no permutation")


CASES = [
    ("normal_", {"mean": 1.0, "std": 2.0}, check_normal), ("randn_like", {}, check_normal),
    ("uniform_", {"from": -1.0, "to": 3.0}, check_uniform), ("rand_like", {}, check_uniform),
    ("random_", {"from": 2, "to": 9}, check_integers), ("randint_like", {"low": -3, "high": 4}, check_integers),
    ("bernoulli_.float", {"p": 0.3}, check_bernoulli), ("bernoulli", {}, check_bernoulli),
    ("dropout", {"p": 0.25, "train": True}, check_dropout), ("dropout", {"p": 0.5, "train": False}, check_dropout),
    ("native_dropout", {"p": 0.25, "train": True}, check_dropout),
    ("truncated_normal_", {"mean": 0.0, "std": 1.0, "low": -1.5, "high": 1.5}, check_truncated),
    ("exponential_", {"lambd": 2.0}, check_positive(lambda a: 0.5, lambda a: 0.5)),
    ("geometric_", {"p": 0.4}, check_geometric), ("log_normal_", {"mean": 0.5, "std": 0.5}, check_log_normal),
    ("cauchy_", {"median": 1.0, "sigma": 2.0}, check_cauchy), ("randperm_", {}, check_permutation),
]
OPS = sorted({op for op, _, _ in CASES} | {"multinomial"})


def operand(op, dtype):
    """Probabilities where they are read, else numbers that are not 0."""
    a = np.linspace(0.05, 0.95, N) if op == "bernoulli" else np.linspace(1.0, 4.0, N)
    return dtypes.round_to(dtype, a)


def document(op, attrs, dtype, seed):
    """The call under every layout, and with another seed and another stream on one rank."""
    a = operand(op, dtype)
    variants = [(mesh, placements, seed, 5) for mesh, placements in LAYOUTS]
    variants += [([1], ["R"], seed + 1, 5), ([1], ["R"], seed, 6)]
    inputs, program = {}, []
    for at, (mesh, placements, own_seed, stream) in enumerate(variants):
        inputs[f"x{at}"] = {"shape": [N], "dtype": dtype, "placements": placements, "values": listed(a),
                            "mesh": {"shape": mesh}}
        outs = [f"y{at}", f"m{at}"] if op == "native_dropout" else [f"y{at}"]
        program.append({"op": op, "args": [f"x{at}"], "attrs": {**attrs, "seed": own_seed, "stream": stream},
                        "out": outs})
    return {"mesh": {"shape": [1]}, "inputs": inputs, "program": program}


def check(op, attrs, dtype, results):
    """results: carriers of document()'s calls, or of its masks. Raises Finding."""
    values = [results[f"y{at}"][1] for at in range(len(LAYOUTS) + 2)]
    for (mesh, placements), other in zip(LAYOUTS, values):
        holds(other == values[0], f"other values on mesh {mesh} under {placements}")
    if not (op == "dropout" and not attrs["train"]):
        for what, other in zip(("seed", "stream"), values[len(LAYOUTS):]):
            if np.array_equal(other, values[0]):
                raise Finding("value", f"the same values with another {what}")
    if op == "native_dropout":
        holds(results["m0"][1] == (values[0] != 0), "a mask that is not that of the result")


def multinomial(replacement, seed):
    """Rows of weights of which some are 0."""
    weights = np.array([[1.0, 0.0, 3.0, 4.0, 0.5], [0.0, 2.0, 0.0, 1.0, 1.0]])
    samples = 400 if replacement else 3
    inputs, program = {}, []
    for at, (mesh, placements) in enumerate((([1], ["R"]), ([2], ["S(0)"]), ([3], ["R"]), ([2], ["S(1)"]))):
        inputs[f"x{at}"] = {"shape": [2, 5], "dtype": "F64", "placements": placements, "values": listed(weights),
                            "mesh": {"shape": mesh}}
        program.append({"op": "multinomial", "args": [f"x{at}"], "out": [f"y{at}"], "attrs": {
            "num_samples": samples, "replacement": replacement, "seed": seed, "stream": 5}})
    return weights, {"mesh": {"shape": [1]}, "inputs": inputs, "program": program}


def check_multinomial(weights, replacement, results):
    values = [results[f"y{at}"][1] for at in range(4)]
    for other in values[1:]:
        holds(other == values[0], "other categories on another mesh")
    for row, drawn in zip(weights, values[0]):
        holds(row[drawn] > 0, "a category of weight 0")
        if not replacement:
            holds(np.unique(drawn).size == drawn.size, "a category twice")
        else:
            share = np.bincount(drawn, minlength=5) / drawn.size
            holds(np.abs(share - row / row.sum()) < 6 * 0.5 / np.sqrt(drawn.size), "shares unlike the weights")


def run(audit, seed):
    """(documents tried, [(op, kind, text, document)])."""
    findings, tried = [], 0
    jobs = [(op, attrs, statistic, dtype) for op, attrs, statistic in CASES
            for dtype in ("F64", "F32", "BF16", "F16") if dtype in ("F64", "F32") or op in ("dropout", "rand_like")]
    for op, attrs, statistic, dtype in jobs:
        made = document(op, attrs, dtype, seed)
        tried += 1

        def judged(results, op=op, attrs=attrs, statistic=statistic, dtype=dtype):
            check(op, attrs, dtype, results)
            if dtype in ("F64", "F32"):
                statistic(results["y0"][1], operand(op, dtype), attrs)
        findings += found(audit, op, made, judged)
    for replacement in (True, False):
        weights, made = multinomial(replacement, seed)
        tried += 1
        findings += found(audit, "multinomial", made, lambda results, w=weights, r=replacement: check_multinomial(
            w, r, results))
    return tried, findings


def found(audit, op, made, judged):
    outcome = audit.run(made)
    if not outcome.fine:
        return [(op, "random", "refused" if outcome.exit_code == 3 else "crash", outcome.text, made)]
    try:
        judged(outcome.results)
    except Finding as finding:
        return [(op, "random", finding.kind, f"{op}: {finding.text}", made)]
    return []
