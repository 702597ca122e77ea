"""What the server that forks peers has loaded, so that each of them starts in milliseconds."""

import chromadb.api.fastapi  # noqa: F401
import peer  # noqa: F401

from agently_gumem import embedder, text
from agently_gumem.remember import digest  # noqa: F401
from agently_gumem.remember.forgetting import run  # noqa: F401

embedder.BundledEmbedder()(["load"])
text.words("load")
