"""Arrays without reference counts, for the innermost loops.

numba counts references to an array at every function that takes it, with atomic operations that
cost more than the arithmetic of a short support: nearly half of a profile of Cora's rows. A
borrowed array is the same memory without an owner; whoever borrows keeps the owner alive for
longer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic


def _borrow(typing_context: Any, array: Any) -> Any:
    """Return the array without its owner. Only for use in compiled code."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = context.make_array(signature.args[0])(context, builder, args[0])
        value.meminfo = ir.Constant(value.meminfo.type, None)
        value.parent = ir.Constant(value.parent.type, None)
        return value._getvalue()

    return array(array), generate


borrow: Any = intrinsic(_borrow)
