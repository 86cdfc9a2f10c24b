"""The one table from ATen's overloads to the engine's ops.

A row reads "op operands | attributes", by ATen's argument names: `ours=theirs` where the names differ, `ours:=value` for a
constant. An overload that is not here (or that its row's condition refuses) is a region with a warning. What takes more than
names, a sum of offsets say, is a function of aten_special.py, which a row names by "@".
"""

_UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not bitwise_not neg positive rad2deg reciprocal
relu round rsqrt sigmoid sign signbit silu sin sinc sinh sqrt square tan tanh trunc mish hardsigmoid hardswish i0""".split()
_UNARY_IN_PLACE = """abs atan bitwise_not ceil cos erf exp exp2 expm1 floor frac log log10 log1p log2 neg reciprocal relu
round rsqrt sigmoid sign silu sin sqrt square tan tanh trunc""".split()
_COMPARISONS = "eq ge gt le lt ne".split()
_PAIRS = """atan2 floor_divide fmax fmin gcd hypot lcm logaddexp logaddexp2 logical_and logical_or logical_xor maximum
minimum nextafter""".split()
_PAIRS_OF_TENSORS = "bitwise_left_shift bitwise_right_shift copysign fmod remainder xlogy".split()
_BITS = "bitwise_and bitwise_or bitwise_xor".split()

ATEN = {
    # Arithmetic.
    "add.Tensor": "add self other | alpha", "add_.Tensor": "@add_in_place",
    "add.Scalar": "add_scalar self | value=other", "add_.Scalar": "add_scalar_ self | value=other",
    "sub.Tensor": "sub self other | alpha", "sub_.Tensor": "sub_ self other | alpha",
    "sub.Scalar": "sub_scalar self | value=other", "sub_.Scalar": "sub_scalar_ self | value=other",
    "rsub.Tensor": "rsub self other | alpha", "rsub.Scalar": "rsub_scalar self | value=other alpha",
    "mul.Tensor": "mul self other", "mul_.Tensor": "mul_ self other",
    "mul.Scalar": "mul_scalar self | value=other", "mul_.Scalar": "mul_scalar_ self | value=other",
    "div.Tensor": "div self other", "div_.Tensor": "div_ self other",
    "div.Scalar": "div_scalar self | value=other", "div_.Scalar": "div_scalar_ self | value=other",
    "pow.Tensor_Scalar": "pow self | exponent", "pow_.Scalar": "pow_ self | exponent",
    "pow.Tensor_Tensor": "pow_tensor self other=exponent",
    "pow.Scalar": "scalar_pow self=exponent | self",
    "addcmul.default": "addcmul self tensor1 tensor2 | value", "addcmul_.default": "addcmul_ self tensor1 tensor2 | value",
    "addcdiv.default": "addcdiv self tensor1 tensor2 | value", "addcdiv_.default": "addcdiv_ self tensor1 tensor2 | value",
    "lerp.Tensor": "lerp self end weight", "lerp_.Tensor": "lerp_ self end weight",
    "lerp.Scalar": "lerp_scalar self end | weight", "lerp_.Scalar": "lerp_scalar_ self end | weight",
    "clamp.default": "clamp self | min max", "clamp_.default": "clamp_ self | min max",
    "clamp.Tensor": "clamp_tensor self min max",
    "clamp_min.default": "clamp_min self | min", "clamp_max.default": "clamp_max self | max",
    "clamp_min_.default": "clamp_min_ self | min", "clamp_max_.default": "clamp_max_ self | max",
    "floor_divide.Scalar": "floor_divide_scalar self | value=other", "remainder.Scalar": "remainder_scalar self | value=other",
    "fmod.Scalar": "fmod_scalar self | value=other",
    "nan_to_num.default": "nan_to_num self | nan posinf neginf", "nan_to_num_.default": "nan_to_num_ self | nan posinf neginf",
    "where.self": "where condition self other", "where.ScalarOther": "where_scalar condition self | other",
    "masked_fill.Scalar": "masked_fill self mask | value", "masked_fill_.Scalar": "masked_fill_ self mask | value",
    "masked_fill.Tensor": "masked_fill_tensor self mask value", "masked_fill_.Tensor": "masked_fill_tensor_ self mask value",
    # Activations and their slopes.
    "gelu.default": "gelu self | approximate", "elu.default": "elu self | alpha scale input_scale",
    "leaky_relu.default": "leaky_relu self | negative_slope", "hardtanh.default": "hardtanh self | min_val max_val",
    "softplus.default": "softplus self | beta threshold", "threshold.default": "threshold self | threshold value",
    "logit.default": "logit self | eps", "log_sigmoid_forward.default": "@log_sigmoid",
    "silu_backward.default": "silu_grad grad=grad_output self",
    "sigmoid_backward.default": "sigmoid_grad grad=grad_output result=output",
    "tanh_backward.default": "tanh_grad grad=grad_output result=output",
    "gelu_backward.default": "gelu_grad grad=grad_output self | approximate",
    "threshold_backward.default": "@threshold_grad",
    "_softmax.default": "softmax self | dim", "_safe_softmax.default": "softmax self | dim",
    "_log_softmax.default": "log_softmax self | dim",
    "_softmax_backward_data.default": "softmax_grad grad=grad_output result=output | dim",
    "_log_softmax_backward_data.default": "log_softmax_grad grad=grad_output result=output | dim",
    "native_dropout.default": "native_dropout self=input | p train seed:=0 stream:=0",
    # Products.
    "mm.default": "mm self mat2", "bmm.default": "bmm self mat2", "mv.default": "mv self vec", "dot.default": "dot self tensor",
    "addmm.default": "addmm self mat1 mat2 | beta alpha",
    "baddbmm.default": "baddbmm self mat1=batch1 mat2=batch2 | beta alpha",
    "_grouped_mm.default": "@grouped_mm",
    "_scaled_dot_product_flash_attention_for_cpu.default": "@attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": "@attention_grad",
    # Reductions.
    "sum.default": "sum self", "sum.dim_IntList": "sum self | dim keepdim", "mean.default": "mean self",
    "mean.dim": "mean self | dim keepdim", "nansum.default": "nansum self | dim keepdim",
    "prod.default": "prod self", "prod.dim_int": "prod self | dim keepdim",
    "amax.default": "amax self | dim keepdim", "amin.default": "amin self | dim keepdim",
    "max.default": "max self", "min.default": "min self", "max.dim": "max_dim self | dim keepdim",
    "min.dim": "min_dim self | dim keepdim", "argmax.default": "argmax self | dim keepdim",
    "argmin.default": "argmin self | dim keepdim", "all.default": "all self", "all.dim": "all self | dim keepdim",
    "any.default": "any self", "any.dim": "any self | dim keepdim", "logsumexp.default": "logsumexp self | dim keepdim",
    "var.correction": "var self | dim correction keepdim", "std.correction": "std self | dim correction keepdim",
    "var_mean.correction": "var_mean self | dim correction keepdim", "median.default": "median self",
    "linalg_vector_norm.default": "linalg_vector_norm self | ord dim keepdim", "histc.default": "histc self | bins min max",
    "bincount.default": "bincount self weights | minlength", "trace.default": "trace self",
    "cumsum.default": "cumsum self | dim", "cumprod.default": "cumprod self | dim",
    "logcumsumexp.default": "logcumsumexp self | dim", "cummax.default": "cummax self | dim", "cummin.default": "cummin self | dim",
    "topk.default": "topk self | k dim largest sorted", "sort.default": "sort self | dim descending",
    "sort.stable": "sort self | dim descending", "argsort.stable": "argsort self | dim descending",
    "argsort.default": "argsort self | dim descending", "kthvalue.default": "kthvalue self | k dim keepdim",
    # Norms, embedding, losses.
    "native_layer_norm.default": "@layer_norm", "native_layer_norm_backward.default": "@layer_norm_grad",
    "_fused_rms_norm.default": "@rms_norm", "_fused_rms_norm_backward.default": "@rms_norm_grad",
    "embedding.default": "embedding weight indices",
    "embedding_dense_backward.default": "embedding_grad grad=grad_output indices | num_embeddings=num_weights",
    "mse_loss.default": "@mse_loss",
    # Views.
    "view.default": "view self | size", "_unsafe_view.default": "view self | size", "reshape.default": "reshape self | shape",
    "t.default": "t self", "transpose.int": "transpose self | dim0 dim1", "permute.default": "permute self | dims",
    "expand.default": "expand self | size", "unsqueeze.default": "unsqueeze self | dim", "squeeze.dim": "squeeze self | dim",
    "squeeze.dims": "squeeze self | dim", "select.int": "select self | dim index",
    "slice.Tensor": "slice self | dim start end step", "slice_backward.default": "@slice_grad",
    "select_backward.default": "@select_grad", "split.Tensor": "split self | split_size dim",
    "split_with_sizes.default": "split_with_sizes self | split_sizes dim", "unbind.int": "unbind self | dim",
    "diagonal.default": "diagonal self | offset dim1 dim2", "unfold.default": "unfold self | dimension size step",
    # Movers.
    "cat.default": "cat tensors | dim", "stack.default": "stack tensors | dim", "clone.default": "clone self",
    "copy_.default": "copy_ self other=src", "_to_copy.default": "@to_copy",
    "repeat.default": "repeat self | repeats", "flip.default": "flip self | dims", "roll.default": "roll self | shifts dims",
    "tril.default": "tril self | diagonal", "triu.default": "triu self | diagonal", "constant_pad_nd.default":
    "constant_pad_nd self | pad value", "slice_scatter.default": "slice_scatter self src | dim start end step",
    "select_scatter.default": "select_scatter self src | dim index",
    "gather.default": "gather self index | dim", "index_select.default": "index_select self index | dim",
    "scatter.src": "scatter self index src | dim", "scatter_.src": "scatter_ self index src | dim",
    "scatter.value": "scatter_value self index | dim value", "scatter_.value": "scatter_value_ self index | dim value",
    "scatter_add.default": "scatter_add self index src | dim", "scatter_add_.default": "scatter_add_ self index src | dim",
    "scatter_reduce.two": "scatter_reduce self index src | dim reduce include_self",
    "index_add.default": "@index_add", "index_add_.default": "@index_add",
    "index_copy.default": "index_copy self index source | dim", "index_fill.int_Scalar": "index_fill self index | dim value",
    "index.Tensor": "@index", "index_put.default": "@index_put", "index_put_.default": "@index_put",
    "_unsafe_index_put.default": "@index_put", "_index_put_impl_.default": "@index_put",
    "masked_scatter.default": "masked_scatter self mask source", "bucketize.Tensor": "bucketize self boundaries | out_int32 right",
    "searchsorted.Tensor": "searchsorted sorted_sequence self | out_int32 right",
    # Makers.
    "empty_like.default": "empty_like self | dtype", "zeros_like.default": "zeros_like self | dtype",
    "ones_like.default": "ones_like self | dtype", "full_like.default": "full_like self | fill_value dtype",
    "new_empty.default": "new_empty self | size dtype", "new_zeros.default": "new_zeros self | size dtype",
    "new_ones.default": "new_ones self | size dtype", "new_full.default": "new_full self | size fill_value dtype",
    "fill_.Scalar": "fill_ self | value", "zero_.default": "zero_ self",
    "rand_like.default": "rand_like self | seed:=0 stream:=0", "randn_like.default": "randn_like self | seed:=0 stream:=0",
    "uniform_.default": "uniform_ self | from to seed:=0 stream:=0", "normal_.default": "normal_ self | mean std seed:=0 stream:=0",
    "bernoulli_.float": "bernoulli_.float self | p seed:=0 stream:=0", "bernoulli.default": "bernoulli self | seed:=0 stream:=0",
    "multinomial.default": "multinomial self | num_samples replacement seed:=0 stream:=0",
    # Optimizers (lists are taken apart: one op a parameter).
    "_fused_adamw_.default": "@fused_adamw", "_fused_adam_.default": "@fused_adam",
    "_fused_sgd_.default": "@fused_sgd",
}
ATEN.update({f"{name}.default": f"{name} self" for name in _UNARY})
ATEN.update({f"{name}_.default": f"{name}_ self" for name in _UNARY_IN_PLACE})
ATEN.update({f"{name}.Tensor": f"{name} self other" for name in _COMPARISONS + _BITS + _PAIRS_OF_TENSORS})
ATEN.update({f"{name}.default": f"{name} self other" for name in _PAIRS})
ATEN.update({f"{name}.Scalar": f"{name}_scalar self | value=other" for name in _COMPARISONS + _BITS})
ATEN.update({f"{name}_.Tensor": f"{name}_ self other" for name in _BITS})

# A call of a list op is one call a tensor: `_foreach_mul_.Scalar` is `mul_.Tensor` with a number.
FOREACH = {"List": "Tensor", "Scalar": "Tensor", "ScalarList": "Tensor", "Tensor": "Tensor", "default": "default"}

# List ops whose single ones are others of ATen's, or none.
FOREACH_ROWS = {"norm.Scalar": "linalg_vector_norm self | ord", "maximum_.List": "maximum_ self other",
                "minimum_.List": "minimum_ self other"}

# The same tensor under another name, or no tensor at all: nothing runs on the device.
ALIASES = {"detach.default", "alias.default", "lift_fresh.default", "lift.default", "detach_.default",
           "_reshape_alias.default", "requires_grad_.default"}

# Made of no tensor: constants, the same on every rank.
MAKERS = {"empty.memory_format", "zeros.default", "ones.default", "full.default", "arange.default", "arange.start",
          "arange.start_step", "scalar_tensor.default", "eye.default", "linspace.default", "empty_strided.default",
          "randperm.default", "rand.default", "randn.default", "randint.default", "randint.low", "tril_indices.default",
          "triu_indices.default", "empty_permuted.default", "full.names"}


def row_of(overload):
    """The table's row for "mm.default", or None."""
    return ATEN.get(overload)


def parse(row):
    """("op", [(ours, theirs)], [(ours, theirs or None, constant)]) of a row."""
    head, _, tail = row.partition("|")
    op, *operands = head.split()
    operands = [tuple(o.split("=")) if "=" in o else (o, o) for o in operands]
    attributes = []
    for item in tail.split():
        if ":=" in item:
            ours, value = item.split(":=")
            attributes.append((ours, None, int(value)))
        else:
            ours, _, theirs = item.partition("=")
            attributes.append((ours, theirs or ours, None))
    return op, operands, attributes
