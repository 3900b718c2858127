"""python -m weightwright.cli"""

from weightwright.cli import main

main()
