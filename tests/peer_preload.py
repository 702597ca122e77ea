"""What the server that forks peers has loaded, so that each of them starts in milliseconds."""

import agently  # noqa: F401
import chromadb.api.fastapi  # noqa: F401
import peer  # noqa: F401

from agently_gumem import embedder, text
from agently_gumem.privacy import PrivacyPolicy
from agently_gumem.remember import digest  # noqa: F401
from agently_gumem.remember.forgetting import run  # noqa: F401
from agently_gumem.remember.select import Selector

embedder.BundledEmbedder()(["load"])
text.words("load")
Selector(PrivacyPolicy())("I paid with 4111 1111 1111 1111 in my clinic.")
