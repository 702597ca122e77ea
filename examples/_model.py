"""The model of the examples: yours by GUMEM_BASE_URL, else one on loopback that follows rules."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agently_gumem.testing import Request, RuleModel

# Agently 4.0.x reports every step of a request on the console.
logging.getLogger("Agently").setLevel(logging.WARNING)


@contextmanager
def chat_model(
    answer: Callable[[Request], str] | None = None,
) -> Iterator[tuple[dict[str, Any], RuleModel | None]]:
    """Give the settings of the model that GUMEM_BASE_URL, GUMEM_MODEL and GUMEM_API_KEY name.

    Args:
        answer: What the RuleModel answers to the chat; a real model speaks for itself.

    Yields:
        Settings for `agent.set_settings("OpenAICompatible", ...)`, and the RuleModel that runs
        where GUMEM_BASE_URL is not set.
    """
    base_url = os.environ.get("GUMEM_BASE_URL")
    if not base_url:
        with RuleModel(answer) as model:
            yield model.settings, model
        return
    name = os.environ.get("GUMEM_MODEL")
    if not name:
        raise SystemExit("GUMEM_BASE_URL is set: name the model in GUMEM_MODEL as well")
    key = os.environ.get("GUMEM_API_KEY") or "none"
    yield {"base_url": base_url, "model": name, "model_type": "chat", "api_key": key}, None
