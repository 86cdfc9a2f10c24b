#!/usr/bin/env python3
"""placement-audit with a planted wrong answer, for tests of the tester.

SPOILED_AUDIT is the program itself, SPOILED_HOW what is done to a saved tensor whose name ends with
SPOILED_NAME: value, zero (its zeros change sign), or late (an error that a rank found, instead).
"""
import json
import os
import struct
import subprocess
import sys


def spoil(path, how, suffix):
    """Changes the first element that it finds to change; whether there was one."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    size = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__" or not name.endswith(suffix) or entry["dtype"] != "F64":
            continue
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        for at in range(begin, end, 8):
            value = struct.unpack_from("<d", data, at)[0]
            by = 1e-4 if name.startswith("grad.") else 1e-6
            changed = -value if how == "zero" and value == 0 else value + by * (1 + abs(value))
            if how == "zero" and value != 0 or changed != changed:
                continue
            struct.pack_into("<d", data, at, changed)
            with open(path, "wb") as file:
                file.write(data)
            return True
    return False


def main():
    how, suffix = os.environ["SPOILED_HOW"], os.environ.get("SPOILED_NAME", "")
    run = subprocess.run([os.environ["SPOILED_AUDIT"]] + sys.argv[1:], check=False)
    if run.returncode == 0 and "--save" in sys.argv:
        spoiled = spoil(sys.argv[sys.argv.index("--save") + 1], how if how != "late" else "value", suffix)
        if how == "late" and spoiled:
            print("placement-audit: standard input: /program/0: rank 1: add: a kernel's words", file=sys.stderr)
            return 3
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
