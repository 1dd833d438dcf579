"""`python -m bridle` is `bridle`."""

from bridle.cli import main

main()
