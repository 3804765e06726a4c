"""`python -m panto_cli` is the command too."""

from . import main

main()
