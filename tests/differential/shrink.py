"""Makes a failing program smaller while it fails in the same way."""
import copy

import itertools

import numpy as np

import oracle
from operands import listed

MOST_TRIALS = 160
MOST_REFUSED = 40  # of programs that are refused, which cannot be tried together
AT_ONCE = 8


class Shrinker:
    """fail(documents) -> for each whether it still shows the finding."""

    def __init__(self, fail, most=MOST_TRIALS):
        self.fail, self.most = fail, most
        self.trials = 0

    def smaller(self, document):
        changed = True
        while changed and self.trials < self.most:
            changed = False
            for candidates in (without_steps, without_grads, meshes, whole, sizes, plainer_values, plainer_attrs,
                               wider):
                found = self.first_failing(candidates(document))
                if found is not None:
                    document, changed = found, True
        return document

    def first_failing(self, candidates):
        """The first of the candidates that fails, tried a few at a time."""
        while self.trials < self.most:
            some = [pruned(c) for c in itertools.islice(candidates, AT_ONCE)]
            if not some:
                return None
            self.trials += len(some)
            for candidate, failed in zip(some, self.fail(some)):
                if failed:
                    return candidate
        return None


def names_in(step):
    """Names that a step reads."""
    names = []

    def collect(value):
        if isinstance(value, str):
            names.append(value)
        elif isinstance(value, list):
            for v in value:
                collect(v)
    for key in ("args", "into", "redistribute", "backward", "cotangent", "grads"):
        collect(step.get(key))
    return names


def outs_of(step):
    out = step.get("out", [])
    return [out] if isinstance(out, str) else [o for o in out if o is not None]


def pruned(document):
    """Without inputs that nothing reads."""
    read = {name for step in document["program"] for name in names_in(step)}
    document["inputs"] = {n: e for n, e in document["inputs"].items() if n in read}
    return document


def without_steps(document):
    """Without one step and what reads its results; the last steps first."""
    for at in reversed(range(len(document["program"]))):
        candidate = copy.deepcopy(document)
        lost = set(outs_of(candidate["program"].pop(at)))
        kept = []
        for step in candidate["program"]:
            if lost & set(names_in(step)):
                lost |= set(outs_of(step))
            else:
                kept.append(step)
        candidate["program"] = kept
        if kept:
            yield candidate
    for at, step in enumerate(document["program"]):
        if "op" in step and step.get("out") and len(names_in(step)) >= 1:
            # The step's first operand in place of its result.
            candidate = copy.deepcopy(document)
            old, new = outs_of(step)[0], names_in(step)[0]
            del candidate["program"][at]
            candidate["program"] = [renamed(s, old, new) for s in candidate["program"]]
            if candidate["program"]:
                yield candidate


def renamed(step, old, new):
    def change(value):
        if isinstance(value, list):
            return [change(v) for v in value]
        return new if value == old else value
    return {k: change(v) if k in ("args", "into", "redistribute", "backward", "cotangent", "grads") else v
            for k, v in step.items()}


def without_grads(document):
    for at, step in enumerate(document["program"]):
        for name in step.get("grads", []) if len(step.get("grads", [])) > 1 else []:
            candidate = copy.deepcopy(document)
            candidate["program"][at]["grads"] = [n for n in step["grads"] if n != name]
            yield candidate


def meshes(document):
    """Fewer axes, fewer ranks."""
    shape = document["mesh"]["shape"]
    for axis in range(len(shape)) if len(shape) > 1 else []:
        candidate = copy.deepcopy(document)
        candidate["mesh"]["shape"] = shape[:axis] + shape[axis + 1:]
        for entry in candidate["inputs"].values():
            if "local" in entry:
                break
            del entry["placements"][axis]
        else:
            for step in candidate["program"]:
                if "to" in step:
                    del step["to"][axis]
            yield candidate
    for size in (1, 2):
        if len(shape) == 1 and size < shape[0] and not any("local" in e for e in document["inputs"].values()):
            candidate = copy.deepcopy(document)
            candidate["mesh"]["shape"] = [size]
            yield candidate


def whole(document):
    """Inputs replicated, or given by their values."""
    for name, entry in document["inputs"].items():
        if any(p != "R" for p in entry["placements"]):
            yield with_placements(document, name, ["R"] * len(entry["placements"]))
    for name, entry in document["inputs"].items():
        for axis, placement in enumerate(entry["placements"]):
            if placement != "R" and len(entry["placements"]) > 1:
                yield with_placements(document, name, entry["placements"][:axis] + ["R"]
                                      + entry["placements"][axis + 1:])
        if "local" in entry:
            yield with_placements(document, name, entry["placements"])


def with_placements(document, name, placements):
    candidate = copy.deepcopy(document)
    entry = candidate["inputs"][name]
    entry["values"] = listed(oracle.whole(document, document["inputs"][name]))
    entry.pop("local", None)
    entry["placements"] = list(placements)
    return candidate


def sizes(document):
    """A size that occurs made smaller wherever it occurs, values cut off; attributes that hold it, too."""
    if any("local" in e for e in document["inputs"].values()):
        return
    occurring = sorted({n for e in document["inputs"].values() for n in e["shape"]}, reverse=True)
    for old in occurring:
        for new in sorted({1, 2, old - 1}):
            if 0 <= new < old:
                yield cut_down(document, old, new)
    for name, entry in document["inputs"].items():
        for dim, old in enumerate(entry["shape"]):
            for new in sorted({1, old - 1}):
                if 0 < new < old:
                    yield cut_down(document, old, new, {(name, dim)})


def cut_down(document, old, new, only=None):
    candidate = copy.deepcopy(document)
    for name, entry in candidate["inputs"].items():
        shape = entry["shape"]
        to = [new if n == old and (only is None or (name, d) in only) else n for d, n in enumerate(shape)]
        values = np.array(entry["values"], object).reshape(shape)
        entry["values"] = values[(...,) + tuple(slice(n) for n in to)].ravel().tolist()
        entry["shape"] = to
    if only is None:
        for step in candidate["program"]:
            step["attrs"] = {k: [new if v == old else v for v in value] if isinstance(value, list) else value
                             for k, value in step["attrs"].items()} if "attrs" in step else {}
            if "op" not in step:
                del step["attrs"]
    return candidate


def plainer_values(document):
    for name, entry in document["inputs"].items():
        if "values" not in entry:
            continue
        plain = [False] if entry["dtype"] == "BOOL" else [1, 0]
        for value in plain:
            if any(v != value for v in entry["values"]):
                candidate = copy.deepcopy(document)
                candidate["inputs"][name]["values"] = [value] * len(entry["values"])
                yield candidate
        for at, old in enumerate(entry["values"][:8]):
            if old not in (0, 1, 2, True, False):
                for value in plain:
                    candidate = copy.deepcopy(document)
                    candidate["inputs"][name]["values"][at] = value
                    yield candidate


def plainer_attrs(document):
    for at, step in enumerate(document["program"]):
        for name, value in step.get("attrs", {}).items():
            plainer = {bool: [False], int: [0, 1], float: [1.0, 0.0], list: [[]]}.get(type(value), [])
            for new in plainer:
                if new != value and not (isinstance(value, bool) and not value):
                    candidate = copy.deepcopy(document)
                    candidate["program"][at]["attrs"][name] = new
                    yield candidate
            candidate = copy.deepcopy(document)
            del candidate["program"][at]["attrs"][name]
            yield candidate


def wider(document):
    """All operands as F64, where they are floating."""
    if any(e["dtype"] in ("F32", "BF16", "F16") for e in document["inputs"].values()):
        candidate = copy.deepcopy(document)
        for entry in candidate["inputs"].values():
            if entry["dtype"] in ("F32", "BF16", "F16"):
                entry["dtype"] = "F64"
        yield candidate
