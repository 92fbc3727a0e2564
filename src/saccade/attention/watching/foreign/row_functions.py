"""Lists of torch functions, grouped by whether they mix, move or keep the tokens of their arguments (``row_rules``).

Functions are recognised by their plain names: ``Tensor.add_``, ``torch.add`` and ``+`` are all ``add``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch


def words(names: str) -> set[str]:
    return set(names.split())


@functools.lru_cache(4096)
def name_of(function: Callable[..., Any]) -> str:
    """Return the plain name of one of torch's functions: ``add`` for ``Tensor.__iadd__`` and ``torch.add``."""
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        qualified = str(function).split(".")  # aten.flip.default, aten.flip
        return _plain(qualified[1]) if qualified[0] == "aten" else ".".join(qualified[:2])
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__"):
        attribute = getattr(getattr(function, "__self__", None), "__name__", "")
        return f"{attribute} =" if name == "__set__" else attribute
    if isinstance(function, FunctionType) and function.__module__.split(".")[0] != "torch":
        return f"{function.__module__}.{name}"
    return _plain(name)


def is_in_place(function: Callable[..., Any]) -> bool:
    name = getattr(function, "__name__", "").split(".")[0]
    return (name.endswith("_") and not name.endswith("__")) or (name.startswith("__i") and name in IN_PLACE)


#: Operators that write into their first argument.
IN_PLACE = {
    f"__i{name}__" for name in words("add and div floordiv lshift matmul mod mul or pow rshift sub truediv xor")
}


def _plain(name: str) -> str:
    if name.startswith("__") and name.endswith("__"):
        inner = name[2:-2]
        operator = inner if inner in OPERATORS else inner[1:] if inner[1:] in OPERATORS else ""
        return OPERATORS.get(operator, inner)
    return name.rstrip("_")


OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "div": "div", "floordiv": "floor_divide", "mod":
    "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift":
    "bitwise_left_shift", "rshift": "bitwise_right_shift", "matmul": "matmul", "neg": "neg", "pos": "positive", "abs":
    "abs", "invert": "bitwise_not", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip


def pointwise() -> set[str]:
    """Return the names of the operators that torch itself marks as pointwise: they compute each element separately."""
    found = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            tags = (getattr(packet, overload).tags for overload in packet.overloads())  # type: ignore[no-untyped-call]
            if any(torch.Tag.pointwise in some for some in tags):
                found.add(name.rstrip("_"))
    return found


#: Functions that compute each element of their output from the (broadcast) arguments' elements at the same place.
ELEMENTWISE = words(
    "absolute addcdiv addcmul alpha_dropout arccos arccosh arcsin arcsinh arctan arctan2 arctanh "
    "bernoulli complex conj divide dropout dropout1d dropout2d dropout3d expit "
    "fake_quantize_per_tensor_affine feature_dropout fix float_power floor_divide greater "
    "greater_equal hardswish imag isclose isreal lerp less less_equal log_sigmoid logsigmoid "
    "multiply native_dropout negative not_equal polar prelu real resolve_conj "
    "resolve_neg rrelu softsign square subtract tanhshrink tril triu"
)
#: Functions that return the same numbers, perhaps as another type or on another device.
SAME = words(
    "_to_copy alias bfloat16 bool byte char clone contiguous cpu cuda data deepcopy detach double "
    "float half int lift_fresh long pin_memory requires_grad short to type type_as"
)
#: Functions that change nothing about the numbers of a tensor.
KEEPS = {"requires_grad =", "grad =", "names =", *words("backward retain_grad record_stream share_memory")}
#: Functions that expose the memory of a tensor, so that code outside torch can change its numbers unseen.
ESCAPES = words("_typed_storage array data_ptr dlpack numpy storage untyped_storage")
#: Functions that give a copy of the numbers to Python.
READS = words("complex float int item tolist")
#: Functions that return the size of a tensor to Python.
SIZES = words("len nelement numel shape size")
#: Functions whose output has a size that depends on the numbers of their arguments, as selections by truth values do.
SIZED = words("_unique _unique2 argwhere bincount masked_select nonzero unique unique_consecutive unique_dim")
#: Functions that make tensors from numbers outside of torch.
MAKES = words("as_tensor asarray from_dlpack from_numpy frombuffer new_tensor scalar_tensor tensor")
#: Functions that fill a tensor with a number, or write one into it, and the place of the number among the arguments.
FILLS = {
    "fill": 1, "full": 1, "full_like": 1, "index_fill": 3, "new_full": 2, "pad": 3, "constant_pad_nd": 2, "scatter": 3,
    "setitem": 2,
}  # fmt: skip
#: Functions that count from one number to another. If only the last number is given, it is a size.
COUNTS = words("arange linspace logspace range")
#: Arguments that are settings of a function, not numbers to compute with.
SETTINGS = words("dim dropout_p inplace p training")
#: Functions that use only the shape of their argument, and functions that write random numbers into it.
CONSTANTS = words(
    "empty_like full_like new_empty new_full new_ones new_zeros ones_like rand_like randint_like "
    "randn_like zero zeros_like"
)
RANDOM = {"normal", "uniform", "random", "exponential"}


#: Functions that only move the numbers of their first argument; they are applied to the ids of its tokens as well.
MOVES = words(
    "H T _unsafe_view adjoint as_strided broadcast_to "
    "channel_shuffle chunk diag diag_embed diagonal dsplit expand expand_as flatten flip fliplr "
    "flipud gather getitem hsplit index index_select mH mT masked_select moveaxis movedim narrow "
    "narrow_copy native_channel_shuffle permute pixel_shuffle pixel_unshuffle ravel repeat "
    "repeat_interleave reshape reshape_as roll rot90 select slice split split_with_sizes squeeze "
    "swapaxes swapdims t take take_along_dim tensor_split tile transpose unbind unflatten unfold "
    "unsafe_chunk unsafe_split unsqueeze unsqueeze_copy view view_as vsplit"
)
#: Functions that move numbers and may change the order of tokens, unlike a reshape.
REORDERS = words(
    "as_strided channel_shuffle flip fliplr flipud gather index_select native_channel_shuffle pad "
    "pixel_shuffle pixel_unshuffle repeat repeat_interleave roll rot90 take take_along_dim tile "
    "unfold"
)
#: Functions that concatenate or stack the tensors of a list.
JOINS = words("cat column_stack concat concatenate dstack hstack row_stack stack vstack")
#: Functions that write one argument, whose place is given here, into the first argument.
WRITES = {
    "index_copy": 3, "scatter": 3, "setitem": 2, "index_put": 2, "masked_scatter": 2, "select_scatter": 1,
    "slice_scatter": 1, "diagonal_scatter": 1, "index_fill": 3,
}  # fmt: skip
#: Functions that add one argument, whose place is given here, to numbers of the first argument.
ADDS = {"index_add": 3, "scatter_add": 3}
#: Functions that compute over some dimensions: the place of the argument that names the dimensions, and its default.
OVER = {
    **dict.fromkeys(
        words("_log_softmax _softmax cummax cummin cumprod cumsum log_softmax logcumsumexp softmax softmin"), (1, None)
    ),
    **dict.fromkeys(
        words(
        "all amax amin aminmax any argmax argmin count_nonzero logsumexp max mean min nanmean nansum "
        "prod std std_mean sum var var_mean"
    ),
        (1, "all"),
    ),
    **dict.fromkeys(["norm", "vector_norm", "linalg_vector_norm"], (2, "all")),
    "normalize": (2, 1),
    "cosine_similarity": (2, 1),
    "glu": (1, -1),
    "gumbel_softmax": (4, -1),
}  # fmt: skip
