"""Runs many programs in worker processes and gathers what came of them."""
import collections
import concurrent.futures
import itertools
import multiprocessing
import re
import resource
import time
import warnings

import numpy as np

import decisions
import generate
import oracles
import verdict
from audit import Audit
from table import Table

BATCH = 24  # programs in one process of the audit
ROUND = 16  # batches of a worker before it is replaced
QUOTA = 3  # programs around an op, at least, that ran and were found right or wrong
MORE_TRIES, TRIES_AN_OP = 6, 12


class Tally:
    def __init__(self):
        self.kinds, self.verdicts = collections.Counter(), collections.Counter()
        self.decisions, self.judged = collections.Counter(), collections.Counter()
        self.findings = []  # (op, kind of program, verdict's kind, text, document)
        self.programs = self.processes = 0

    def add(self, other):
        for name in ("kinds", "verdicts", "decisions", "judged"):
            getattr(self, name).update(getattr(other, name))
        self.findings += other.findings
        self.programs += other.programs
        self.processes += other.processes

    def count(self, program, said):
        """program: (op, kind, document)."""
        op, kind, document = program
        self.programs += 1
        self.kinds[kind] += 1
        if said.decision is not None:
            self.decisions[said.decision.name] += 1
        self.verdicts[said.kind if said.decision is None else "by decision"] += 1
        if said.kind == verdict.FINE:
            for step in document["program"]:
                if "op" in step:
                    self.judged[step["op"]] += 1
        if said.is_finding:
            self.findings.append((op, kind, said.kind, said.text, document))


class Plan:
    """What to run: the program, who judges (numpy or torch), a seed, and ops and kinds of programs if not all."""

    def __init__(self, options):
        self.audit, self.against, self.seed = options.audit, options.against, options.seed
        self.ops, self.kinds = options.op, options.kind


def judge_of(against):
    """The function from a program and its outcome to the verdict."""
    if against == "torch":
        import torch_verdict  # only where it is asked for: the numpy half runs without it
        return torch_verdict.of_outcome
    return verdict.of_outcome


JUDGE_BYTES = 8 * 2**30  # of one judge's address space; PyTorch takes 3 of them by being loaded

_STATE = {}


def prepare(plan):
    """What the workers inherit."""
    warnings.simplefilter("ignore", RuntimeWarning)
    _STATE["plan"], _STATE["table"], _STATE["audit"] = plan, Table(plan.audit), Audit(plan.audit)
    _STATE["ops"] = plan.ops or covered_ops(_STATE["table"])


def covered_ops(table):
    return sorted(name for name in table.ops if name in oracles.OPS or (
        name.endswith("_") and name[:-1] in oracles.OPS))


def run_batch(first):
    """The Tally of programs [first, first + BATCH)."""
    plan, table, audit = _STATE["plan"], _STATE["table"], _STATE["audit"]
    judge = judge_of(plan.against)
    before, tally, programs = audit.processes, Tally(), []
    for index in range(first, first + BATCH):
        rng = np.random.default_rng([plan.seed, index])
        op = _STATE["ops"][index % len(_STATE["ops"])]
        kind, document = generate.program(rng, table, op, plan.kinds)
        if document is None:
            tally.verdicts["none made"] += 1
        else:
            programs.append((index, (op, kind, document)))
    for (index, program), outcome in outcomes_of(audit, programs):
        tally.count(program, judged(judge, program[2], table, outcome, index))
    tally.processes = audit.processes - before
    return tally


def judged(judge, document, table, outcome, seed):
    """The verdict; an error of the judge's own is a finding, too."""
    try:
        return judge(document, table, outcome, seed)
    except MemoryError:
        return verdict.Verdict(verdict.UNSURE, "too large for the judge")
    except Exception as error:  # of whatever kind: the other programs are judged all the same
        return verdict.Verdict("the judge's error", repr(error))


def outcomes_of(audit, programs):
    """Of all that are to run, together; what is to be refused would end the others."""
    alone = [p for p in programs if p[1][1] == "refused"]
    together = [p for p in programs if p[1][1] != "refused"]
    yield from zip(together, audit.run_all([p[1][2] for p in together]))
    for program in alone:
        yield program, audit.run(program[1][2])


def top_up(total, plan, programs, workers):
    """Single calls of the ops that have been judged too seldom, by chance or as few of their calls are taken."""
    for _ in range(MORE_TRIES):
        judged = total.judged + collections.Counter(f[0] for f in total.findings)
        lacking = [op for op in _STATE["ops"] if judged[op] < QUOTA]
        if not lacking:
            return
        every, plan.kinds, _STATE["ops"] = _STATE["ops"], ["single"], lacking
        count = -(-TRIES_AN_OP * len(lacking) // BATCH) * BATCH
        run_round(list(range(programs, programs + count, BATCH)), workers, total)
        plan.kinds, _STATE["ops"] = None, every
        programs += count


def run(plan, programs, seconds, workers):
    """The Tally of `programs` programs and a few more, or of as many as `seconds` allow."""
    total, start = Tally(), time.monotonic()
    prepare(plan)
    firsts = iter(range(0, programs, BATCH) if programs else itertools.count(0, BATCH))
    while True:
        some = list(itertools.islice(firsts, ROUND * workers))
        if not some or (seconds and time.monotonic() - start > seconds):
            break
        run_round(some, workers, total)
    if plan.against == "numpy" and programs >= len(_STATE["ops"]) and not plan.ops and not plan.kinds:
        top_up(total, plan, -(-programs // BATCH) * BATCH, workers)
    return total


def bound_memory():
    """A judge asked for more than it may have says so, before the machine's memory is gone."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (JUDGE_BYTES, hard))


def judges(workers):
    context = multiprocessing.get_context("fork")
    return concurrent.futures.ProcessPoolExecutor(workers, context, initializer=bound_memory)


def run_round(firsts, workers, total):
    """A judge that dies, as PyTorch may, costs its round and is counted."""
    with judges(workers) as pool:
        try:
            for tally in pool.map(run_batch, firsts):
                total.add(tally)
        except concurrent.futures.process.BrokenProcessPool:
            total.verdicts["a judge died"] += 1


def signature(kind, text, document):
    """Findings of one signature are shown once or twice."""
    ops = [s["op"] for s in document["program"] if "op" in s and s["op"] != "clone"]
    if kind in ("value", "dtype", "shape", "gradient", "crash", "accepted", "timeout"):
        return (kind,) + tuple(sorted(set(ops[-1:])))
    text = re.sub(r"placement-audit: standard input: /program/\d+(/\w+)*: ", "", text)
    text = re.sub(r"\[.*?\]|\d+|\([^)]*\)|\b(F64|F32|BF16|F16|I64|I32|U8|BOOL)\b|\b[xyrc]_?\d\w*", "#", text)
    return (kind, " ".join(text.split())[:70])


