"""Runs programs through `placement-audit run`, many in one document.

A process costs about 20 ms, a small program 0.2 ms more, so programs are joined: each gets names of
its own, and each input the mesh of its program. A program that is refused is named by the error
(/program/N), taken out, and the others run again; what ends the process otherwise is found by halves.
"""
import json
import os
import re
import signal
import subprocess
import tempfile

import safetensors_file

# A program hangs that takes so many seconds of a processor, on however busy a machine, or stands still so
# long. What bounds a judge's memory does not bound it.
BUSY_SECONDS, IDLE_SECONDS = 10, 300
LIMITED = ["sh", "-c", f'ulimit -t {BUSY_SECONDS} && ulimit -S -v unlimited && exec "$0" "$@"']


class Outcome:
    """What one program came to: its results and how each lies, or an exit code and a line of text."""

    def __init__(self, exit_code, text="", results=None, placements=None):
        self.exit_code, self.text = exit_code, text
        self.results, self.placements = results or {}, placements or {}

    @property
    def fine(self):
        return self.exit_code == 0


class Audit:
    def __init__(self, path):
        self.path = path
        self.processes = 0

    def run(self, document):
        """One program in a process of its own."""
        return self._execute(document)

    def run_all(self, documents):
        """One Outcome for each."""
        outcomes = [None] * len(documents)
        self._run_some(documents, list(range(len(documents))), outcomes)
        return outcomes

    def _run_some(self, documents, chosen, outcomes):
        while chosen:
            joined, owners = join([documents[i] for i in chosen])
            outcome = self._execute(joined)
            if outcome.fine:
                for place, i in enumerate(chosen):
                    outcomes[i] = Outcome(0, "", own_results(outcome.results, place), own_results(outcome.placements, place))
                return
            culprit = owner_of(outcome.text, owners) if outcome.exit_code == 3 else None
            if len(chosen) == 1:
                outcomes[chosen[0]] = self._execute(documents[chosen[0]])
                return
            if culprit is None:
                half = len(chosen) // 2
                self._run_some(documents, chosen[:half], outcomes)
                self._run_some(documents, chosen[half:], outcomes)
                return
            outcomes[chosen[culprit]] = Outcome(3, own_text(outcome.text, owners))
            del chosen[culprit]

    def _execute(self, document):
        self.processes += 1
        with tempfile.TemporaryDirectory() as folder:
            saved = os.path.join(folder, "out.safetensors")
            try:
                run = subprocess.run(LIMITED + [self.path, "run", "--save", saved], input=json.dumps(document),
                                     capture_output=True, text=True, check=False, timeout=IDLE_SECONDS,
                                     env=dict(os.environ, TMPDIR=folder))
            except subprocess.TimeoutExpired:
                return Outcome("timeout", f"no answer within {IDLE_SECONDS} s")
            if run.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return Outcome("timeout", f"no answer within {BUSY_SECONDS} s of a processor")
            if run.returncode != 0:
                return Outcome(run.returncode, run.stderr.strip().split("\n")[-1])
            return Outcome(0, "", safetensors_file.read(saved), placements_in(run.stdout))


def placements_in(answer):
    """By name, as the program tells; a layout that no list says is left out."""
    results = json.loads(answer)["results"]
    return {name: entry["placements"] for name, entry in results.items() if "placements" in entry}


def renamed(value, prefix):
    """An argument with the names in it prefixed."""
    if isinstance(value, str):
        return prefix + value
    if isinstance(value, list):
        return [renamed(v, prefix) for v in value]
    return value


NAMES = ("args", "out", "into", "redistribute", "backward", "cotangent", "grads")


def join(documents):
    """One document, and of each of its steps which program it is from and where there."""
    inputs, program, owners = {}, [], []
    for place, document in enumerate(documents):
        prefix = f"p{place}_"
        for name, entry in document["inputs"].items():
            inputs[prefix + name] = {"mesh": document["mesh"], **entry}
        for at, step in enumerate(document["program"]):
            program.append({k: renamed(v, prefix) if k in NAMES else v for k, v in step.items()})
            owners.append((place, at))
    return {"mesh": {"shape": [1]}, "inputs": inputs, "program": program}, owners


def owner_of(text, owners):
    """Which of the joined programs an error speaks of."""
    step = re.search(r"/program/(\d+)", text)
    if step:
        return owners[int(step[1])][0]
    named = re.search(r"/inputs/p(\d+)_", text)
    return int(named[1]) if named else None


def own_text(text, owners):
    """The error as it would read had the program run alone."""
    text = re.sub(r"/program/(\d+)", lambda m: f"/program/{owners[int(m[1])][1]}", text)
    return re.sub(r"\bp\d+_", "", text)


def own_results(results, place):
    own = {}
    for name, value in results.items():
        found = re.fullmatch(rf"(grad\.)?p{place}_(.*)", name, re.DOTALL)
        if found:
            own[(found[1] or "") + found[2]] = value
    return own
