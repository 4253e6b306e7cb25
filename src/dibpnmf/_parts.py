"""Compiling what only compiled code calls: as far as its callers need it, and no further.

numba optimises every function and makes machine code of it, and then links its code into each
caller, which is optimised with it and made into machine code again. Of functions that only compiled
code calls the first machine code is never used: a quarter of the time that the first fit takes. The
clean-up of each function stays: without it there is more to link, and loops come out slower.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Environments:
    """Where functions without machine code keep what they print, or say when they raise."""

    def __init__(self, codegen: Any) -> None:
        self._codegen = codegen

    def set_env(self, env_name: str, env: Any) -> None:
        """Make a place for the environment, which the callers' machine code will find."""
        place = llvm.parse_assembly(f'@"{env_name}" = common global i64 0')
        place.data_layout = self._codegen._data_layout
        self._codegen._engine.add_module(place)
        self._codegen._engine.finalize_object()
        self._codegen.set_env(env_name, env)


class _PartLibrary(JITCodeLibrary):
    """The code of one function, for linking only."""

    is_optimised = False  # as a whole, before it is linked

    @property
    def codegen(self) -> Any:
        """What numba asks to set the environment."""
        return _Environments(self._codegen)

    def _optimize_final_module(self) -> None:
        if self.is_optimised:
            super()._optimize_final_module()

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return null: there is no machine code."""
        self._ensure_finalized()
        return 0


class PartCompiler(Compiler):
    """numba's compiler, with a library of its own for the code."""

    def __init__(  # type: ignore[no-untyped-def]
        self, typingctx, targetctx, library, args, return_type, flags, locals
    ) -> None:
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)
        if library is None:
            own = _PartLibrary(self.state.targetctx.codegen(), "part")
            # Loops are put in lanes where sums may be reordered, and so before they are inlined:
            # what surrounds them there may be in the way.
            own.is_optimised = bool(flags.fastmath)
            self.state.library = own
