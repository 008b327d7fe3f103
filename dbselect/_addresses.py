"""Little address space where ``ulimit -v`` limits it: allocators reserve it by the gigabyte."""

import os
import sys

#: The option of glibc's `mallopt` for the number of its arenas, each of which takes 64 MiB; by
#: default there are eight a core.
M_ARENA_MAX = -8


def save() -> None:
    """Let glibc and Arrow reserve less, if this process may not have any amount.

    Only before the first thread of a pool allocates has it an effect: at the import of dbselect.
    """
    if sys.platform != "linux":
        return
    import resource

    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    import ctypes

    # Arrow's own allocator takes 1 GiB at once.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if set_option is not None:
        set_option(M_ARENA_MAX, 2)
