"""What a spawned process does with a session that it was given by its reference."""

import chromadb
from letters import Letters

from agently_gumem import GUMem


def added(port, ref):
    """Open the session on a server, add to it, and read it."""
    client = chromadb.HttpClient(host="127.0.0.1", port=port)
    with GUMem(client=client, embedding_function=Letters()) as gumem:
        memory = gumem.open(ref)
        memory.user.add_messages({"content": "I drink milk."}, memory.session_id)
        return [m.content for m in memory.user.messages("s")]
