"""`python -m pruner`, the same as `pruner`."""

import sys

from pruner.cli import main

if __name__ == "__main__":
    sys.exit(main())
