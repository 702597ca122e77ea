"""What differs between versions of Agently, and the runner over them.

Most of these are felt on 4.0.8 alone: `tests/sabotage.py` runs with the Agently that is installed,
so its tests are those that see the code whatever the version.
"""

from patches._patch import Patch

PATCHES: list[Patch] = []
