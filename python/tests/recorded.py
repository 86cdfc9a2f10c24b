"""The recorded programs: what makes each, from which mesh. `python recorded.py [FOLDER]` writes them anew (needs torch).

They are test data of the audit as well, so that it is tested where torch is not installed.
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "models")
DATA = os.path.normpath(os.path.join(HERE, "..", "..", "tests", "data", "programs"))

# The release of torch that they were recorded with: others decide otherwise here and there.
RELEASE = "2.15"

# name: (what makes it, mesh)
RECORDED = {
    "torch_llama": ("llama.py:build", "dp=4,tp=2"),
    "torch_llama_stages": ("llama.py:build_stage", "pp=2,dp=2,tp=2"),
    "torch_deepseek": ("deepseek.py:build", "dp=2,ep=4"),
    "torch_implicit_gather": ("planted.py:build_implicit_gather", "dp=2,tp=4"),
    "torch_decoder": ("decoder.py:build", "dp=2,tp=4"),
    "torch_decoder_mended": ("decoder.py:build_mended", "dp=2,tp=4"),
    "torch_router": ("planted.py:build_router", "dp=2,tp=4"),
    "torch_regions": ("planted.py:build_regions", "dp=2,tp=4"),
    "torch_wrong_rows": ("wrong_rows.py:build", "dp=2,tp=2"),
}


def path_of(name, folder=DATA):
    return os.path.join(folder, name + ".json")


def run(*arguments, folder=MODELS):
    """The program in a process of its own, with the models' folder as the current one."""
    return started([sys.executable, "-m", "tessera_trace", *arguments], folder)


def started(words, folder=MODELS):
    """A command that finds the package and, as python3, this interpreter."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=os.path.dirname(HERE))
    environment["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
    return subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True, timeout=600)


def audit():
    """placement-audit, or None where it is not built."""
    built = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "release", "bin", "placement-audit")
    program = os.environ.get("TESSERA_AUDIT", built)
    return program if os.access(program, os.X_OK) else None


def make(name, folder):
    program, mesh = RECORDED[name]
    return run(program, "--mesh", mesh, "--name", name, "-o", path_of(name, folder))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else DATA
    for name in RECORDED:
        made = make(name, folder)
        print(f"{name}: {made.stderr.strip()}")
        if made.returncode:
            return made.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
