"""A program as JSON: regions of local_map folded into one step each, names in place of values, the same bytes each time."""
import json
import math

from .recorder import values_in
from .values import Value

LIMIT_OF_NAME = 200


def fold_regions(records):
    """Each run of records that one local_map (or its gradient) made becomes one region; redistributions before it stay."""
    used_by = {}
    for at, record in enumerate(records):
        for value in operands_of(record):
            used_by.setdefault(id(value), []).append(at)
    made, at = [], 0
    while at < len(records):
        key = records[at].get("_region")
        if key is None:
            made.append(records[at])
            at += 1
            continue
        run, stop = [], at
        while stop < len(records) and records[stop].get("_region") == key:
            run.append(stop)
            stop += 1
        inside = [i for i in run if "redistribute" not in records[i] and "host_read" not in records[i]]
        first = min(inside, default=stop)
        made += [records[i] for i in run if i not in inside and _ready(records[i], records, inside)]
        if inside:
            made.append(_folded(key, [records[i] for i in inside], set(inside), used_by))
        made += [records[i] for i in run if i not in inside and not _ready(records[i], records, inside)]
        at = max(stop, first)
    return made


def _ready(record, records, inside):
    """Whether a record takes nothing that the region makes."""
    within = {id(value) for i in inside for value in records[i].get("out") or () if value}
    return not any(id(value) in within for value in operands_of(record))


def _folded(key, run, inside, used_by):
    produced = [value for record in run for value in record.get("out") or () if value]
    made = {id(value) for value in produced}
    args, seen = [], set()
    for record in run:
        for value in operands_of(record):
            if id(value) not in made and id(value) not in seen:
                seen.add(id(value))
                args.append(value)
    declared = {id(value) for record in run if record.get("region") == "from_local" for value in record["out"]}
    outs = [value for value in produced
            if id(value) in declared or any(at not in inside for at in used_by.get(id(value), ()))]
    warnings = [record["warning"] for record in run if "warning" in record and record["region"] in ("from_local", "to_local")]
    name = "local_map." + key[-1] + (".backward" if key[0] == "backward" else "")
    folded = {"region": name, "args": args, "out": outs}
    flops = sum(record.get("_flops") or record.get("flops", 0) for record in run)
    if flops:
        folded["flops"] = flops
    folded["bytes"] = sum(value.local_bytes for value in args + outs)
    moved = [move for record in run for move in record.get("moves", ())]
    if moved:
        folded["moves"] = moved
    if warnings:
        folded["warning"] = "; ".join(warnings)
    return folded | {name: run[0][name] for name in ("module", "site", "phase", "stage") if name in run[0]}


def operands_of(record):
    if "redistribute" in record:
        return [record["redistribute"]]
    if "host_read" in record:
        return [record["host_read"]]
    return values_in(record["args"])


def written(head, meshes, values, records, warnings):
    """The program's text: one value and one step a line."""
    steps = [_step(record) for record in records]
    lines = ['{"version":1']
    lines += [f'"{name}":{_json(each)}' for name, each in head.items()]
    lines.append(f'"meshes":{_json(meshes)}')
    if warnings:
        lines.append('"warnings":[\n  ' + ",\n  ".join(_json(text) for text in warnings) + "]")
    lines.append('"values":[\n  ' + ",\n  ".join(_json(value.written()) for value in values) + "]")
    lines.append('"steps":[\n  ' + ",\n  ".join(_json(step) for step in steps) + "]")
    return ",\n ".join(lines) + "}\n"


def _step(record):
    step = {}
    for key, each in record.items():
        if key.startswith("_"):
            continue
        if key in ("redistribute", "host_read"):
            each = each.name
        elif key == "args":
            each = _named(each)
        elif key == "out":
            each = each.name if isinstance(each, Value) else [value and value.written() for value in each]
        elif key == "attrs":
            each = {name: _plain(value) for name, value in each.items()}
        step[key] = each
    return step


def _named(args):
    if isinstance(args, (list, tuple)):
        return [_named(each) for each in args]
    if isinstance(args, Value):
        return args.name
    return int(args) if isinstance(args, bool) else args


def _plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _json(thing):
    return json.dumps(thing, separators=(",", ":"), ensure_ascii=False)
