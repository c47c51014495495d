"""python -m hotloop"""

from hotloop.cli import main

main()
