"""Records one training step of a PyTorch program as a program of Tessera: for `placement-audit check`.

`trace(build, mesh)` runs build(mesh) and the step that it returns under a fake process group and fake tensors: no device, no
memory, one process. Recorded are DTensor's ops with their placements; redistributions spec to spec, written or implicit;
FSDP2's gathers and reduce-scatters; parallelize_module's plans; local_map and custom ops as regions; collectives on plain
tensors; module paths, source lines, phases. `python -m tessera_trace train.py:build --mesh dp=64,tp=8 -o run.json` is the same
as a program. docs/torch.md tells what is recorded how, and what is not.
"""
import importlib

__all__ = ["BuildFailed", "Step", "Trace", "TraceError", "mesh_axes", "trace"]


def __getattr__(name):
    """What is of torch: loaded when it is asked for, so that a command line without torch can say so."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".session", __name__), name)
