"""`python -m weft` is the same as `weft`."""

from weft.cli import main

main()
