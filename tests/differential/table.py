"""The op table and the samples that the audit prints."""
import json
import subprocess


class Table:
    def __init__(self, audit):
        listing = subprocess.run([audit, "ops"], capture_output=True, text=True, check=True).stdout
        self.ops = {op["name"]: op for op in json.loads(listing)["ops"]}
        lines = subprocess.run([audit, "ops", "--samples"], capture_output=True, text=True,
                               check=True).stdout.splitlines()
        self.samples = {}
        for line in lines:
            document = json.loads(line)
            self.samples.setdefault(document["program"][0]["op"], []).append(document)

    def filled(self, step):
        """The attributes of a step with the defaults of those left out, numbers as numbers."""
        attrs = {a["name"]: a["default"] for a in self.ops[step["op"]]["attrs"] if "default" in a}
        attrs.update(step.get("attrs", {}))
        return {name: plain(value) for name, value in attrs.items()}

    def attribute_type(self, op, name):
        return next(a["type"] for a in self.ops[op]["attrs"] if a["name"] == name)


def plain(value):
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    return value
