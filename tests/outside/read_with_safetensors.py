#!/usr/bin/env python3
"""Reads a checkpoint's shards with the package safetensors (and numpy).

    python3 tests/outside/read_with_safetensors.py DIR [DIR2]

Puts every tensor together from its parts as the manifest says, each element exactly once, and
prints how many there are. With a second folder: their tensors must be equal bit by bit, however
each was cut. Exit code 1: something differs.
"""
import json
import os
import sys

import numpy as np
from safetensors import safe_open


def entry_name(tensor, part):
    if part["shape"] == tensor["shape"]:
        return tensor["name"]
    box = ", ".join(f"{o}:{o + s}" for o, s in zip(part["offset"], part["shape"]))
    return f"{tensor['name']}[{box}]"


def read(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    generation = os.path.join(folder, f"gen-{manifest['generation']}")
    shards = [safe_open(os.path.join(generation, file["name"]), "np") for file in manifest["files"]]
    unread = [set(shard.keys()) for shard in shards]
    tensors = {}
    for tensor in manifest["tensors"]:
        whole, covered = None, np.zeros(tensor["shape"], np.int8)
        for part in tensor["parts"]:
            name = entry_name(tensor, part)
            values = shards[part["file"]].get_tensor(name)
            unread[part["file"]].remove(name)
            if whole is None:
                whole = np.zeros(tensor["shape"], values.dtype)
            at = tuple(slice(o, o + s) for o, s in zip(part["offset"], part["shape"]))
            whole[at] = values
            covered[at] += 1
        if not (covered == 1).all():
            sys.exit(f"{folder}: {tensor['name']}: not every element is covered once")
        tensors[tensor["name"]] = whole
    if any(unread):
        sys.exit(f"{folder}: entries that the manifest lacks: {[n for u in unread for n in u][:3]}")
    return tensors


def main():
    folders = sys.argv[1:]
    if len(folders) not in (1, 2):
        sys.exit(__doc__)
    first = read(folders[0])
    print(f"{folders[0]}: {len(first)} tensors, {sum(t.size for t in first.values())} elements")
    if len(folders) == 1:
        return
    second = read(folders[1])
    different = sorted(first.keys() ^ second.keys())
    different += [n for n in first.keys() & second.keys()
                  if first[n].dtype != second[n].dtype or first[n].tobytes() != second[n].tobytes()]
    if different:
        sys.exit(f"{len(different)} tensors differ, among them {different[:3]}")
    print("equal, bit by bit")


if __name__ == "__main__":
    main()
