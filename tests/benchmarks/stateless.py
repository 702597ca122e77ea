"""What a query costs right after another process wrote: two processes on one Chroma server.

`python tests/benchmarks/stateless.py [--records 100 300 700] [--rounds 20]` prints medians of CPU
milliseconds in the process that asks: in Chroma's client, in the embedder, and in all the rest.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from chromaserver import Server
from peer import Peer

PLACES = ("Berlin", "Maribor", "Koper", "Potsdam", "Jena", "Ulm", "Graz", "Linz", "Wels", "Bonn")
HOBBIES = ("rowing", "chess", "baking", "sewing", "fencing", "sailing", "knitting", "skating")


def told(number: int) -> str:
    """Say something that no other message says."""
    place, hobby = PLACES[number % 10], HOBBIES[number // 10 % 8]
    return f"In week {number} I was in {place} for {hobby} with group {number * 7}."


def asked(number: int) -> str:
    """Ask for it."""
    return f"Where was I in week {number} for {HOBBIES[number // 10 % 8]}?"


def rounds(writer: Peer, reader: Peer, user: str, records: int, count: int, *, whole: bool) -> str:
    """Let one process write a turn and the other ask, again and again; give a line of the table."""
    writer.ask("tell", user, [told(n) for n in range(records)])
    reader.ask("query", user, asked(3))
    lines: list[dict[str, float]] = []
    for n in range(records, records + count):
        writer.ask("tell", user, [told(n)])
        if whole:
            reader.ask("reload", user)
        answer = reader.ask("measure", user, asked(n))
        assert f"group {n * 7}" in answer["text"], answer["text"]
        lines.append(answer)
    parts = ("rest", "store", "embedding", "calls")
    middle = [statistics.median(line[part] for line in lines) for part in parts]
    highest = max(line["rest"] for line in lines)
    how = "all is read anew" if whole else "what changed is read"
    numbers = " ".join(f"{value:>10.2f}" for value in (middle[0], highest, *middle[1:]))
    return f"{records:>8} {how:<21} {numbers}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[100, 300, 700])
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    names = ("our code", "highest", "client", "embedding", "calls")
    print(f"{'records':>8} {'':<21} " + " ".join(f"{name:>10}" for name in names))
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder)) as server,
        Peer(server.port) as writer,
        Peer(server.port) as reader,
    ):
        for records in given.records:
            for whole in (False, True):
                user = f"{records}-{whole}"
                print(rounds(writer, reader, user, records, given.rounds, whole=whole), flush=True)


if __name__ == "__main__":
    main()
