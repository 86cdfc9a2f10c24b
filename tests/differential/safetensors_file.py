"""Reads a safetensors file into carriers (see dtypes), with numpy and the standard library alone."""
import json

import numpy as np

import dtypes

STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
          "U8": "u1", "BOOL": "?"}


def read(path):
    """{name: (dtype, carrier)}"""
    with open(path, "rb") as file:
        data = file.read()
    header_bytes = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + header_bytes])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data[8 + header_bytes + begin:8 + header_bytes + end],
                            STORED[entry["dtype"]])
        if entry["dtype"] == "BF16":
            raw = (raw.astype(np.uint32) << 16).view(np.float32)
        carrier = raw.astype(dtypes.CARRIER[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (entry["dtype"], carrier)
    return tensors
