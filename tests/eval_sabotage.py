"""Run the evaluation on requests that lack a part: what the model is not told, it can't know.

    python tests/eval_sabotage.py [part ...]

The rules of `RuleModel` answer requests out of which one part was cut: the references of messages,
their times, their roles, the known Facts, or the rules. Prints a line for each, the whole first.
"""

import re
import sys

from agently_gumem.evals import Score, evaluate, load
from agently_gumem.testing import Request, ScriptedModel
from agently_gumem.testing._rules import by_rules


def fields(*names):
    """Cut fields out of the lines of messages."""
    pattern = re.compile(rf'"(?:{"|".join(names)})":"[^"]*",')

    def cut(text):
        head, heading, lines = text.partition("# NEW MESSAGES")
        return head + heading + pattern.sub("", lines)

    return cut


CUTS = {
    "nothing": lambda text: text,
    "references": fields("ref"),
    "times": fields("time", "day"),
    "roles": fields("role"),
    "known": lambda text: re.sub(r"(?s)(# KNOWN FACTS\n).*?(?=# NEW)", r"\1", text),
    "rules": lambda text: re.sub(r"(?s)Keep: .*?(?=# MEMO SCHEMA)", "", text),
}


def without(part):
    """Answer by the rules, from a request that lacks one of its parts."""

    def answer(request):
        if request.memory_stage != "extract":
            return by_rules(request)
        body = {"messages": [{"role": "user", "content": CUTS[part](request.text)}]}
        return by_rules(Request(body))

    return answer


def run(part, dialogues):
    """Run dialogues without one part of each request; every one must have run."""
    with ScriptedModel(memory=without(part)) as model:
        settings = {"OpenAICompatible": model.settings}
        results = list(evaluate(dialogues, settings, jobs=2))
    assert [r.error for r in results if r.error] == []
    return results


def total(results):
    """The scores of all together."""
    return sum((r.scores.score for r in results), Score())


def main():
    """Print what is found and invented without each part."""
    for part in sys.argv[1:] or CUTS:
        score = total(run(part, load()))
        share = score.found / score.expected
        print(f"without {part:<11} found {share:.2f}  wrong {score.wrong}", end="  ")
        print(f"invented {score.invented}  memo {score.memo}/{score.memo_of}")


if __name__ == "__main__":
    main()
