"""One measurement of the preload library, in a process of its own; prints its figure.

Run as a program, with the library's path and the numbers that `weft_live_exchange` in
`crates/live/src/exchange.rs` takes: so the library is loaded before all else, or merely opened.
"""

import ctypes
import sys


def main() -> None:
    """Call the library's own exchange with the numbers of the command line."""
    library, *numbers = sys.argv[1:]
    call = ctypes.CDLL(library).weft_live_exchange
    call.restype, integer = ctypes.c_double, ctypes.c_uint
    call.argtypes = [integer, integer, ctypes.c_size_t, ctypes.c_uint64, integer, integer]
    print(call(*map(int, numbers)))


if __name__ == "__main__":
    main()
