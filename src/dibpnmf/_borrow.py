"""Arrays without reference counts, for the innermost loops.

numba counts references to an array at every function that takes it, with atomic operations that
cost more than the arithmetic of a short support: nearly half of a profile of Cora's rows. A
borrowed array is the same memory without an owner; whoever borrows keeps the owner alive for
longer. Its type has no place for an owner, so that handing on a tuple of many arrays costs nothing,
not even a look at whether there is one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model


class Borrowed(types.Array):
    """Type of an array that has no owner."""

    def __init__(self, dtype: Any, ndim: int, layout: Any) -> None:
        super().__init__(dtype, ndim, layout, name=f"borrowed({dtype}, {ndim}d, {layout})")


@register_model(Borrowed)
class _Unowned(models.ArrayModel):
    """Laid out as any array; what would be the owner is not looked at."""

    def has_nrt_meminfo(self) -> bool:
        return False

    def traverse(self, builder: Any) -> list[Any]:
        return []


def _without_owner(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    value = context.make_array(signature.args[0])(context, builder, args[0])
    value.meminfo = ir.Constant(value.meminfo.type, None)
    value.parent = ir.Constant(value.parent.type, None)
    return value._getvalue()


def _borrow(typing_context: Any, array: Any) -> Any:
    """Return the array without its owner. Only for use in compiled code."""
    return Borrowed(array.dtype, array.ndim, array.layout)(array), _without_owner


def _borrow_as_it_is(typing_context: Any, array: Any) -> Any:
    """Do as `borrow` does, but keep the type: for streams, whose functions compile once then."""
    return array(array), _without_owner


borrow: Any = intrinsic(_borrow)
borrow_as_it_is: Any = intrinsic(_borrow_as_it_is)
