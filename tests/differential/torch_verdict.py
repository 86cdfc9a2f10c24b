"""The verdict on a program with PyTorch's answer in place of the oracle's.

The oracle still says how far rounding may lead: its noisy worlds are independent of the answer.
"""
import numpy as np

import decisions
import judge
import oracle
import slopes
import torch_ops
import torch_world
import verdict
from verdict import FINE, UNSURE, Verdict

# Where the oracle does not cover a program: relative to the largest element of a result.
OTHERWISE = {"F64": 1e-9, "F32": 1e-4, "BF16": 0.1, "F16": 0.02}
GRADIENT = 1e-8
# PyTorch keeps the number of these in F32 on the way back.
COARSE, COARSE_GRADIENT = {"celu"}, 1e-6


class WideRoom(judge.Room):
    """Of a result that the oracle does not have."""

    def __init__(self, expected):
        super().__init__(expected, [])
        if expected.floating:
            finite = np.abs(expected.a[np.isfinite(expected.a)])
            size = finite.max(initial=0.0)
            self.rounded, self.spread = True, np.full(expected.shape, OTHERWISE[expected.dtype] * size / 64)
            self.either_zero[...] = True


def of_outcome(document, table, outcome, seed):
    """The Verdict."""
    if outcome.exit_code not in (0, 3):
        return verdict.crashed(outcome)
    try:
        world = torch_world.TorchWorld(document, table)
    except (torch_ops.Unlike, oracle.Refused) as reason:
        # What PyTorch refuses may be taken here: its kernels lack dtypes that ours have.
        return verdict.late_error(document, outcome) or Verdict(UNSURE, str(reason))
    if outcome.exit_code == 3:
        return of_refusal(document, table, outcome)
    try:
        expected = judge.Expected(document, table, seed)
    except oracle.Shared as reason:
        return Verdict(UNSURE, str(reason))
    except (oracle.Refused, oracle.Unsure):
        expected = None
    try:
        check_values(outcome, world, expected)
        return of_gradients(document, table, outcome, world)
    except judge.Finding as finding:
        return of_finding(finding, expected, (document, table, outcome))
    except oracle.Unsure as reason:
        return Verdict(UNSURE, str(reason))


def of_refusal(document, table, outcome):
    """PyTorch takes the program, and it is refused."""
    said = verdict.of_refusal(document, outcome)
    if said.kind != "refused":
        return said
    try:
        oracle.run(document, table)
    except oracle.Refused:
        return Verdict(decisions.STRICTER.name, outcome.text, decisions.STRICTER)
    except oracle.Unsure as reason:
        return Verdict(UNSURE, str(reason))
    return said


def of_finding(finding, expected, judged):
    """A finding, unless the oracle agrees with ours, or a decision says why. judged: document, table, outcome."""
    document, table, outcome = judged
    if expected is not None:
        decision = verdict.summands(document, table, outcome, expected.plain)
        if decision is not None:
            return Verdict(decision.name, finding.text, decision)
    try:
        if expected is not None and finding.kind != "gradient":
            judge.check_values(expected, outcome)
            return Verdict(decisions.ALONE.name, finding.text, decisions.ALONE)
    except (judge.Finding, oracle.Unsure):
        pass
    return Verdict(finding.kind, finding.text)


def check_values(outcome, world, expected):
    for name, got in outcome.results.items():
        if name in world.tensors:
            check_value(name, got, torch_world.carrier_of(world.tensors[name]), (expected, outcome.placements))


def check_value(name, got, wanted, account):
    """account: the oracle's Expected, or None, and how the results lie."""
    expected, placements = account
    if expected is None or name not in expected.plain.tensors or (
            expected.plain.tensors[name].shape != wanted.shape):
        judge.compare(name, got, wanted, WideRoom(wanted))
        return
    zero_signs = not judge.open_zero_signs(expected.document, placements) and not expected.plain.free
    try:
        judge.compare(name, got, wanted, expected.room(name, judge.FIRST_WORLDS), zero_signs)
    except judge.Finding:
        judge.compare(name, got, wanted, expected.room(name, judge.ALL_WORLDS), zero_signs)


def of_gradients(document, table, outcome, world):
    """FINE, or a decision. Raises Finding, or Unsure."""
    found = None
    for name, wanted in world.gradients.items():
        if decisions.no_gradient(document, name) is decisions.CONSTANTS:
            continue
        own = outcome.results[f"grad.{name}"][1] * slopes.averaged_ranks(document, name)
        wanted = torch_world.carrier_of(wanted)
        coarse = any(step.get("op") in COARSE for step in document["program"])
        for at in np.argwhere(unlike(own, wanted.a, COARSE_GRADIENT if coarse else GRADIENT)):
            found = why_unlike(Element(document, table, name, tuple(int(i) for i in at)), own, wanted.a)
    return Verdict(found.name, "", found) if found else Verdict(FINE)


def unlike(own, wanted, room):
    """Elements that differ by more than rounding; of what is not finite only what became finite, or was."""
    with np.errstate(all="ignore"):
        size = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        near = np.abs(own - wanted) <= room * (np.abs(wanted) + size) + 1e-13
    open_elements = np.isnan(wanted) | (np.isinf(wanted) & ~np.isfinite(own))
    return ~(near | open_elements)


class Element:
    def __init__(self, document, table, name, at):
        self.document, self.table, self.name, self.at = document, table, name, at


def why_unlike(element, own, wanted):
    """The decision by which the gradient is one of several that may be given there. Raises Finding, or Unsure."""
    at = element.at
    text = f"grad.{element.name}: element {list(at)} is {own[at].item()!r}, expected {wanted[at].item()!r}"
    try:
        function = slopes.Function(element.document, element.table)
    except oracle.Refused:
        function = None
    if function is None or function.has_nan:
        raise oracle.Unsure("numbers that are not finite on the way")
    if not np.isfinite(own[at]):
        if function.finite.all() or slopes.without_influence(function, element.name, at):
            raise judge.Finding("gradient", text)
        return decisions.ALONE  # it drops what is not finite beside a slope of 0
    if function.tied or slopes.accepts(function, element.name, at, float(own[at])):
        return decisions.CORNER
    raise judge.Finding("gradient", text)
