"""Keep freed memory for the next tensor of the same size.

glibc gives every large block back to the kernel and faults it in again, page by page, when the next one is asked for. A
training step frees and asks for the same blocks again and again: that took 40 % of its CPU time.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST = 1 << 30  # glibc refuses mmap thresholds above its HEAP_MAX/2 in some builds; what it refuses changes nothing


@cache
def keep_freed_memory() -> bool:
    """Raise malloc's thresholds, once per process. Returns whether this C library could be told."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # not glibc
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1))
