"""What is to be said of one program: fine, nothing, a decision, or a finding."""
import re

import decisions
import judge
import oracle
import slopes

FINE, UNSURE, AGREED = "fine", "unsure", "refused by both"
INDEX_ERROR = re.compile(r"rank \d+: .*(lies outside|a divisor is 0, which integers have no|the mask chooses|offsets must begin with"
                         r"|target -?\d+ at position|they add up to|(index|indices) holds|counts? )")


class Verdict:
    """kind is FINE, UNSURE, AGREED, a decision's name, or that of a finding."""

    def __init__(self, kind, text="", decision=None):
        self.kind, self.text, self.decision = kind, text, decision

    @property
    def is_finding(self):
        return self.kind not in (FINE, UNSURE, AGREED) and self.decision is None


def of_outcome(document, table, outcome, seed):
    """The verdict on a program that came to `outcome`."""
    if outcome.exit_code not in (0, 3):
        return crashed(outcome)
    try:
        expected = judge.Expected(document, table, seed)
    except oracle.Refused as refusal:
        return of_refused(document, outcome, str(refusal))
    except oracle.Unsure as reason:
        late = late_error(document, outcome)
        return late or Verdict(UNSURE, str(reason))
    if outcome.exit_code == 3:
        return of_refusal(document, outcome)
    try:
        judge.check_values(expected, outcome)
        if any("backward" in step for step in document["program"]):
            slopes.check_gradients(document, table, outcome, seed)
    except judge.Finding as finding:
        decision = summands(document, table, outcome, expected.plain)
        return Verdict(decision.name if decision else finding.kind, finding.text, decision)
    except oracle.Unsure as reason:
        return Verdict(UNSURE, str(reason))
    except oracle.Refused:
        return Verdict(UNSURE, "a neighbour that is refused")
    return Verdict(FINE)


def summands(document, table, outcome, world):
    """The decision on sums beside what is not finite or out of range, or on wide scalars, if the program has any."""
    placements = {name: entry["placements"] for name, entry in document["inputs"].items()}
    placements.update(outcome.placements)
    return decisions.summands_beside(document, table, placements, world) or decisions.sums_out_of_range(
        document, placements, world) or decisions.wider_scalars(document, world)


def crashed(outcome):
    return Verdict("timeout" if outcome.exit_code == "timeout" else "crash", f"exit {outcome.exit_code}: {outcome.text}")


def late_error(document, outcome):
    """An error that starts on a rank and is none of an index value."""
    if outcome.exit_code == 3 and re.search(r"rank \d+: ", outcome.text) and not INDEX_ERROR.search(
            outcome.text) and decisions.of_refusal(outcome.text, document) is None:
        return Verdict("late error", outcome.text)
    return None


def of_refused(document, outcome, reason):
    """The oracle refuses the program, too."""
    if outcome.exit_code == 0:
        return Verdict("accepted", f"it runs, but must be refused: {reason}")
    return late_error(document, outcome) or unnamed(outcome) or Verdict(AGREED, outcome.text)


def unnamed(outcome):
    """A refusal that does not name the op."""
    if not re.search(r"/program/\d+(/\w+)*: \w[\w.]*: |/program/\d+/[a-z]+: |/inputs/|the tensors take more than|rank \d+: ", outcome.text):
        return Verdict("unclear error", outcome.text)
    return None


def of_refusal(document, outcome):
    """The oracle takes the program, and it is refused."""
    decision = decisions.of_refusal(outcome.text, document)
    if decision is not None:
        return Verdict(decision.name, outcome.text, decision)
    return late_error(document, outcome) or unnamed(outcome) or Verdict("refused", outcome.text)
