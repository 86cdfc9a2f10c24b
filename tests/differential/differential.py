#!/usr/bin/env python3
"""Judges programs of `placement-audit run` from outside: against numpy, or against PyTorch.

    python3 tests/differential/differential.py build/release/bin/placement-audit

Exit code 1: there are findings. Equal arguments try equal programs.
"""
import argparse
import concurrent.futures
import json
import os
import sys
import time
import warnings

import campaign
import decisions
import random_ops
import verdict
from audit import Audit
from shrink import MOST_REFUSED, MOST_TRIALS, Shrinker
from table import Table

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kept.jsonl")
PLAIN = 6000  # programs of the plain run
# Ops that are not judged, and why.
LEFT_OUT = {
    "one tensor holds four numbers of the trainer: tests/plan compares whole steps with it": "adam_steered_ adamw_steered_",
    "slopes by name; gradients of the ops themselves cover them": "pointwise_grad pointwise_grad_of_two pointwise_grad_of_three",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("audit", help="the program placement-audit")
    parser.add_argument("--against", choices=("numpy", "torch"), default="numpy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--programs", type=int, default=0, help=f"how many ({PLAIN} unless --seconds is given)")
    parser.add_argument("--seconds", type=float, default=0, help="as many as fit into this time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--op", action="append", help="only programs around this op; may be repeated")
    parser.add_argument("--kind", action="append", help="only this kind of program; may be repeated")
    parser.add_argument("--save", default="", help="folder for the programs that fail")
    parser.add_argument("--most", type=int, default=1, help="programs shown of one signature")
    parser.add_argument("--replay", default="", help="judge the programs of this file, one a line")
    return parser.parse_args()


class Report:
    def __init__(self, options):
        self.options = options
        self.table, self.audit = Table(options.audit), Audit(options.audit)

    def said_of(self, document, outcome=None):
        """The verdict on a program; UNSURE of one that makes no sense, as shrinking tries many."""
        outcome = outcome or self.audit.run(document)
        try:
            return campaign.judge_of(self.options.against)(document, self.table, outcome, self.options.seed)
        except Exception as error:  # of whatever kind: a smaller program need make no sense
            return verdict.Verdict(verdict.UNSURE, repr(error))

    def smallest(self, finding):
        """(kind, text, document) of the smallest program that fails alike; None if it fails no more."""
        warnings.simplefilter("ignore", RuntimeWarning)
        _, _, kind, text, document = finding
        if finding[1] == "random" or self.said_of(document).kind != kind:
            return None
        result = text.split(":")[0] if kind in ("value", "dtype", "shape", "gradient") else None

        def fail(candidates):
            said = [self.said_of(c, o) for c, o in zip(candidates, self.audit.run_all(candidates))]
            return [s.kind == kind and (result is None or s.text.startswith(result + ":")) for s in said]
        refused = kind in ("late error", "refused", "unclear error", "crash", "timeout")
        small = Shrinker(fail, MOST_REFUSED if refused else MOST_TRIALS).smaller(document)
        return kind, self.said_of(small).text, small

    def findings(self, tally):
        """Shrunk findings, a few of each signature."""
        seen, chosen = {}, []
        for finding in tally.findings:
            key = campaign.signature(finding[2], finding[3], finding[4])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= self.options.most:
                chosen.append(finding)
        with campaign.judges(self.options.workers) as pool:
            smaller = [pool.submit(self.smallest, finding) for finding in chosen]
            return [self.shown(finding, small) for finding, small in zip(chosen, smaller)]

    def shown(self, finding, small):
        """As it was found where a judge died over the smaller ones."""
        try:
            kind, text, document = small.result() or finding[2:5]
        except concurrent.futures.process.BrokenProcessPool:
            kind, text, document = finding[2:5]
        return {"kind": kind, "text": text, "found_with": finding[0], "doc": document}


def save(folder, shown):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "findings.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for finding in shown:
            file.write(json.dumps(finding) + "\n")
    return path


def replay(report, path):
    wrong = 0
    for line in open(path, encoding="utf-8"):
        document = json.loads(line)
        document = document.get("doc", document)
        document.pop("expect", None)  # the judge has its own account
        said = report.said_of(document)
        wrong += said.is_finding
        print(f"{said.kind}: {said.text}" if said.text else said.kind)
    return 1 if wrong else 0


def main():
    options = arguments()
    warnings.simplefilter("ignore", RuntimeWarning)
    report = Report(options)
    if options.replay:
        return replay(report, options.replay)
    start = time.monotonic()
    options.programs = options.programs or (0 if options.seconds else PLAIN)
    plan = campaign.Plan(options)
    tally = campaign.run(plan, options.programs, options.seconds, options.workers)
    if options.against == "numpy" and not options.op and not options.kind:
        judge_random_ops(report.audit, options.seed, tally)
    if not options.op and not options.kind:
        judge_kept(report, tally)
    ran = time.monotonic() - start
    shown = report.findings(tally)
    for finding in shown:
        print(f"{finding['kind'].upper()} {finding['text']}\n    {json.dumps(finding['doc'])}")
    if options.save and shown:
        print(f"saved: {save(options.save, shown)}")
    never = summary(report, tally, ran)
    died = options.against == "numpy" and tally.verdicts["a judge died"]
    return 1 if tally.findings or died or (never and is_whole(options)) else 0


def is_whole(options):
    """Whether every op must have been judged: not so where a few were asked for."""
    return options.against == "numpy" and options.programs >= PLAIN and not options.op and not options.kind


def judge_kept(report, tally):
    """The smallest programs of what was wrong once."""
    with open(KEPT, encoding="utf-8") as file:
        documents = [json.loads(line)["doc"] for line in file]
    for document, outcome in zip(documents, report.audit.run_all(documents)):
        step = next(s for s in document["program"] if "op" in s)
        tally.count((step["op"], "kept", document), report.said_of(document, outcome))


def judge_random_ops(audit, seed, tally):
    """Bounds, statistics, and that values do not depend on the cut."""
    tried, findings = random_ops.run(audit, seed)
    tally.programs += tried
    tally.kinds["random"] += tried
    tally.verdicts[verdict.FINE] += tried - len(findings)
    tally.judged.update(random_ops.OPS)
    tally.findings += findings


def summary(report, tally, ran):
    """Prints it. The ops that no program has judged."""
    left_out = [op for ops in LEFT_OUT.values() for op in ops.split()]
    never = sorted(set(report.table.ops) - set(tally.judged) - set(left_out))
    for reason, ops in LEFT_OUT.items():
        print(f"left out, {reason}: {ops}")
    if never and not report.options.op:
        print(f"without a program that ran and was judged: {' '.join(never)}")
    for decision in decisions.ALL:
        if tally.decisions[decision.name]:
            print(f"decision: {decision.name}: {tally.decisions[decision.name]} programs ({decision.where})")
    print("programs: " + ", ".join(f"{k} {n}" for k, n in sorted(tally.kinds.items())))
    print("verdicts: " + ", ".join(f"{k} {n}" for k, n in sorted(tally.verdicts.items())))
    print(f"{tally.programs} programs in {ran:.0f} s and {tally.processes} processes, "
          f"{len(tally.judged)} ops judged of {len(report.table.ops)}, {len(tally.findings)} findings, "
          f"{sum(1 for d in decisions.ALL if tally.decisions[d.name])} decisions used, "
          f"{len(left_out)} ops left out")
    return never


if __name__ == "__main__":
    sys.exit(main())
