"""`python -m nopg.cli`, where the script is not on the path."""

from nopg.cli import main

main()
