"""`python -m pubsub.cli` is `camcast`."""

import sys

from pubsub.cli import main

sys.exit(main())
