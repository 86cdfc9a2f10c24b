"""A program as PyTorch runs it on one process: values, aliases and gradients."""
import warnings

import numpy as np
import torch

import dtypes
import oracle
import torch_ops

warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.backends.mkldnn.set_flags(False)  # its BF16 kernels need instructions that not every machine has


def tensor_of(dtype, carrier):
    return torch.from_numpy(np.array(carrier)).to(torch_ops.DTYPES[dtype])


def carrier_of(tensor):
    """(dtype, carrier) of a torch tensor."""
    dtype = torch_ops.NAMES.get(tensor.dtype)
    if dtype is None:
        raise torch_ops.Unlike(f"dtype {tensor.dtype}")
    wide = tensor.detach().double() if dtype in dtypes.FLOATING else tensor.detach()
    return oracle.Tensor(dtype, wide.contiguous().numpy().copy())


class TorchWorld:
    """tensors: by name, as they are at the end. Raises Unlike, or oracle.Refused."""

    def __init__(self, document, table):
        self.table, self.tensors, self.gradients = table, {}, {}
        wanted = {n for step in document["program"] for n in step.get("grads", [])}
        for name, a in oracle.whole_inputs(document).items():
            tensor = tensor_of(document["inputs"][name]["dtype"], a)
            self.tensors[name] = tensor.requires_grad_(True) if name in wanted else tensor
        for step in document["program"]:
            try:
                self.run_step(step)
            except torch_ops.REFUSALS as error:
                raise oracle.Refused(str(error).split("\n")[0]) from error

    def run_step(self, step):
        if "redistribute" in step:
            self.tensors[step["out"]] = self.known(step["redistribute"]).clone()
        elif "backward" in step:
            self.backward(step)
        else:
            self.call(step)

    def call(self, step):
        attrs = self.table.filled(step)
        results = torch_ops.call(step["op"], self.operands(step), attrs)
        if "into" in step:
            for name, result in zip(step["into"], results):
                target = self.tensors[name]
                if target.shape != result.shape or target.dtype != result.dtype:
                    raise oracle.Refused("into takes a tensor's shape and dtype exactly")
                target.copy_(result)
            return
        # Of statistics beside the first result PyTorch tells nothing.
        for name, result in zip(step.get("out", []), results):
            if name is not None:
                self.tensors[name] = result

    def operands(self, step):
        first = next((self.known(n) for n in oracle.operand_names(step)), None)

        def take(arg):
            if arg is None:
                return None
            if isinstance(arg, str):
                return self.known(arg)
            if isinstance(arg, list):
                return [take(a) for a in arg]
            scalar = oracle.scalar_operand(arg, carrier_of(first) if first is not None else None)
            return tensor_of(scalar.dtype, scalar.a)
        return [take(arg) for arg in step["args"]]

    def known(self, name):
        if name not in self.tensors:
            raise torch_ops.Unlike("a result that PyTorch does not give")
        return self.tensors[name]

    def backward(self, step):
        result, inputs = self.known(step["backward"]), [self.tensors[n] for n in step["grads"]]
        weights = torch.ones_like(result) if "cotangent" not in step else self.tensors[step["cotangent"]]
        gradients = torch.autograd.grad(result, inputs, weights, allow_unused=True) if (
            result.requires_grad) else [None] * len(inputs)
        for name, x, gradient in zip(step["grads"], inputs, gradients):
            self.gradients[name] = torch.zeros_like(x) if gradient is None else gradient
