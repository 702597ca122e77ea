"""Run the evaluation: `python -m agently_gumem.evals`."""

import argparse
import json
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agently_gumem.errors import ConfigError
from agently_gumem.evals._dialogues import FOLDER, LANGUAGES, load
from agently_gumem.evals._run import Result, evaluate
from agently_gumem.evals._table import as_json, table
from agently_gumem.testing import RuleModel


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agently_gumem.evals",
        description="How well a model remembers: labelled dialogues, by rule. Without --base-url "
        "they run on RuleModel, which follows rules and is no model.",
    )
    add = parser.add_argument
    add("--base-url", help="an OpenAI-compatible server, with its /v1")
    add("--model", help="the model's name on that server")
    add("--api-key-env", metavar="VAR", help="environment variable that holds the key")
    add("--language", choices=LANGUAGES, help="one language only")
    add("--rule", help='one rule only, such as "stable preference"')
    add("--limit", type=int, metavar="N", help="the first N dialogues only")
    add("--dialogues", type=Path, default=FOLDER, help="a folder of en.jsonl and zh.jsonl")
    add("--templates", type=Path, help="a folder of templates that come before the package's")
    add("--jobs", type=int, default=4, help="dialogues that run at once (4)")
    add("--json", type=Path, metavar="OUT", help="write all figures and texts to this file")
    add("--verbose", action="store_true", help="list what was missed and invented")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; 0 when it ran, 1 when dialogues failed, 2 when wrong."""
    given = _parser().parse_args(argv)
    try:
        results = list(_results(given))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if given.json is not None:
        told = json.dumps(as_json(results), ensure_ascii=False, indent=1)
        given.json.write_text(told + "\n", encoding="utf-8")
    sys.stdout.write(f"{table(results)}\n")
    if given.verbose:
        sys.stdout.writelines(f"{line}\n" for result in results for line in _lines(result))
    failed = [r for r in results if r.scores is None]
    for result in failed:
        sys.stderr.write(f"{result.dialogue.id}: {result.error}\n")
    return 1 if failed else 0


def _results(given: argparse.Namespace) -> Iterator[Result]:
    for name in ("limit", "jobs"):
        if getattr(given, name) is not None and getattr(given, name) < 1:
            raise ConfigError(f"--{name}={getattr(given, name)}: at least 1")
    dialogues = load(given.dialogues, language=given.language, rule=given.rule)[: given.limit]
    with _settings(given) as settings:
        yield from evaluate(dialogues, settings, templates=given.templates, jobs=given.jobs)


@contextmanager
def _settings(given: argparse.Namespace) -> Generator[dict[str, Any]]:
    """Give the settings of the model that is named, or of a RuleModel while it runs."""
    if given.base_url is None:
        if given.model or given.api_key_env:
            raise ConfigError("--model and --api-key-env need --base-url")
        with RuleModel() as model:
            yield {"OpenAICompatible": model.settings}
        return
    if not given.model:
        raise ConfigError("--base-url needs --model, the model's name on that server")
    key = os.environ.get(given.api_key_env) if given.api_key_env else "none"
    if key is None:
        raise ConfigError(f"--api-key-env={given.api_key_env}: there is no such variable")
    named = {"base_url": given.base_url, "model": given.model, "model_type": "chat", "api_key": key}
    yield {"OpenAICompatible": named}


def _lines(result: Result) -> Iterator[str]:
    if result.scores is not None:
        found = result.scores
        for what, texts in (("missed", found.missed), ("invented", found.invented),
                            ("memo", found.memo)):  # fmt: skip
            yield from (f"{result.dialogue.id}: {what}: {text}" for text in texts)


if __name__ == "__main__":
    sys.exit(main())
