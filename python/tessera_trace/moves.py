"""Bytes that collectives move, as torch makes them: a ring's, or what comes to the same.

Each returns {"collective", "axes", "ranks", "bytes": {"max", "total"}}; bytes are received, by the busiest rank and by all
ranks that run the same.
"""
import math

from torch.distributed.tensor import _redistribute


def move(collective, axes, ranks, local_bytes, ranks_alike):
    """`local_bytes`: what one rank puts in (all_reduce, reduce_scatter, all_to_all, broadcast, send) or gets (all_gather)."""
    share = {"all_reduce": 2 * (ranks - 1), "broadcast": ranks, "send": ranks, "receive": ranks}.get(collective, ranks - 1)
    received = share * local_bytes // ranks
    senders = ranks - 1 if collective == "broadcast" else ranks
    return {"collective": collective, "axes": list(axes), "ranks": ranks,
            "bytes": {"max": received, "total": received * ranks_alike * senders // ranks}}


def moves_between(current, target, groups, itemsize, ranks_alike):
    """The collectives of one redistribution, as torch's own planner says; None where that cannot be asked."""
    plan = getattr(_redistribute, "_gen_transform_infos", None)
    if plan is None:
        return None
    made = []
    for step in plan(current, target):
        before, after = step.src_dst_placements
        parts = current.mesh.size(step.mesh_dim)
        whole_bytes = math.prod(step.logical_shape) * itemsize
        dim = getattr(before, "dim", None)
        padded = _padded(step.logical_shape, dim, parts) * itemsize
        collective, local_bytes = None, whole_bytes
        if before.is_partial():
            collective = "all_reduce" if after.is_replicate() else "reduce_scatter"
            local_bytes = _padded(step.logical_shape, getattr(after, "dim", None), parts) * itemsize
        elif dim is not None and after.is_replicate():
            collective, local_bytes = "all_gather", padded
        elif dim is not None and getattr(after, "dim", None) is not None:
            collective, local_bytes = "all_to_all", padded // parts
        if collective and parts > 1:
            made.append(move(collective, groups[step.mesh_dim], parts, local_bytes, ranks_alike))
    return made


def _padded(shape, dim, parts):
    """Elements, with `dim` made a multiple of `parts`: torch pads before it moves."""
    sizes = list(shape)
    if dim is not None and dim < len(sizes):
        sizes[dim] = -(-sizes[dim] // parts) * parts
    return math.prod(sizes)


# Functional and in-place collectives on plain tensors: name without what marks a variant -> the collective.
COLLECTIVES = {"all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather_into_tensor": "all_gather",
               "_allgather_base": "all_gather", "allgather": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
               "_reduce_scatter_base": "reduce_scatter", "reduce_scatter": "reduce_scatter", "all_to_all_single": "all_to_all",
               "alltoall_base": "all_to_all", "alltoall": "all_to_all", "shard_dim_alltoall": "all_to_all",
               "broadcast": "broadcast", "send": "send", "recv": "receive", "scatter": "scatter", "gather": "gather",
               "allgather_into_tensor_coalesced": "all_gather", "all_gather_into_tensor_coalesced": "all_gather",
               "all_reduce_coalesced": "all_reduce", "allreduce_coalesced": "all_reduce",
               "reduce_scatter_tensor_coalesced": "reduce_scatter"}
NAMESPACES = {"_c10d_functional", "c10d", "_c10d_functional_autograd", "_dtensor"}


def collective_of(name):
    """ "all_gather" of "_allgather_base_"; None where bytes are not known."""
    return COLLECTIVES.get(name.removesuffix("_out").rstrip("_"))


def input_of(collective, args_bytes, outs_bytes):
    """What `move` wants of a collective on plain tensors."""
    return outs_bytes if collective in ("all_gather", "receive") and outs_bytes else args_bytes
