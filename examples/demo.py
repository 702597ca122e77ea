"""The demo: from a chat and a behaviour log to a memory that another process recalls.

    python examples/demo.py

It talks to a RuleModel on loopback unless these name another model or story:

    GUMEM_BASE_URL, GUMEM_MODEL, GUMEM_API_KEY    any OpenAI-compatible model
    GUMEM_STORY                                   a file like examples/stories/running_shoes.json

A story is a JSON object:

    title, user_id    texts
    every_n_turns     a digest is due when so many answered turns wait
    script            what happens in the first session, in order, each one of
                      {"did": text, "event": kind, "when": time, "page": where}   behaviour log
                      {"said": text, "reply": what the RuleModel answers}         a chat turn, now
                      {"stage": name}                                             a stage has ended
                      A time is "today 09:30", "yesterday 20:10" or "3 days ago 20:10".
    question          what a new session of the same user asks, in a second process
    expect            what must be found, else the demo fails:
                      facts    lists of words, each list together in one Fact
                      topic, summary, memo, context    words of the Topics' names, the Summaries,
                      the memo, and the CHAT SESSION MEMO that the question's request carries
                      In a word, "a|b" means a or b, and {yesterday} is the date of yesterday.
"""

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from _model import chat_model
from _page import bold, heading, show
from agently import Agently

from agently_gumem import AgentMemory, EveryNTurns, GUMem, Message, StageBoundary, TriggerState
from agently_gumem import UserMemory as User
from agently_gumem.testing import Request

SECTION = "CHAT SESSION MEMO"
SECOND = "--second-session"
MODEL_SECONDS = 120
Story = Mapping[str, Any]


# -- the story -------------------------------------------------------------------------------------


def load(path: Path) -> Story:
    try:
        story = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"demo: can't read the story {path}: {error}") from None
    needed = {"title", "user_id", "script", "question", "expect"}
    if not isinstance(story, dict) or not needed <= set(story):
        raise SystemExit(f"demo: the story {path} needs {', '.join(sorted(needed))}")
    for step in story["script"]:
        if not any(keys <= set(step) for keys in ({"did", "event", "when"}, {"said"}, {"stage"})):
            raise SystemExit(f"demo: a step has did, event and when; or said; or stage: {step}")
    return story


def moment(when: str) -> datetime:
    """Read a time relative to now, such as "yesterday 20:10"."""
    found = re.fullmatch(r"(today|yesterday|(\d+) days ago) (\d\d):(\d\d)", when)
    if found is None:
        raise SystemExit(f'demo: {when!r} is no time such as "yesterday 20:10"')
    days = {"today": 0, "yesterday": 1}.get(found[1]) if found[2] is None else int(found[2])
    day = datetime.now().astimezone() - timedelta(days=days or 0)
    return day.replace(hour=int(found[3]), minute=int(found[4]), second=0, microsecond=0)


def holds(text: str, word: str) -> bool:
    return any(one.lower() in text.lower() for one in word.split("|"))


def check(what: str, text: str, expected: Iterable[str]) -> bool:
    """List which of the expected words a text holds."""
    yesterday = moment("yesterday 12:00").date().isoformat()
    words = [word.replace("{yesterday}", yesterday) for word in expected]
    marks = [(word, bool(text) and holds(text, word)) for word in words]
    told = ", ".join(f"{word} {'found' if there else 'MISSING'}" for word, there in marks)
    show(told or ("present" if text else "MISSING"), f"  {what:8} ")
    return bool(text) and all(there for _, there in marks)


def check_facts(facts: Iterable[str], expected: Iterable[list[str]]) -> bool:
    """List which groups of words stand together in one Fact."""
    contents = list(facts)
    groups = [(ws, any(all(holds(c, w) for w in ws) for c in contents)) for ws in expected]
    told = ", ".join(f"{'+'.join(ws)} {'found' if there else 'MISSING'}" for ws, there in groups)
    show(told or ("present" if contents else "MISSING"), "  facts    ")
    return bool(contents) and all(there for _, there in groups)


# -- the first session -----------------------------------------------------------------------------


class Watched:
    """Triggers, as one function of a TriggerState that notes when and why it said yes."""

    def __init__(self, *triggers: Callable[[TriggerState], bool]) -> None:
        self.triggers = triggers
        self.reasons: list[str] = []

    def __call__(self, state: TriggerState) -> bool:
        """Ask the triggers."""
        fired = [trigger for trigger in self.triggers if trigger(state)]
        for trigger in fired[:1]:
            seen = f"{state.turns} answered turns and {state.pending} messages were waiting"
            stage = f"the stage {state.stage!r} has ended, " if state.stage else ""
            self.reasons.append(f"{trigger!r}: {stage}{seen}")
        return bool(fired)


class Digests:
    """What Agently's event center tells of digests."""

    KINDS = ("gumem.digested", "gumem.failed")

    def __init__(self) -> None:
        self._events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        center = Agently.event_center
        if hasattr(center, "create_emitter"):
            center.register_hook(self._note, event_types=[*self.KINDS], hook_name="gumem_demo")
        else:  # before Agently 4.0.9
            center.register_hook("data", self._note, hook_name="gumem_demo")

    def _note(self, event: Any) -> None:
        """Keep an event, whose kind and payload are its content before Agently 4.0.9."""
        content = getattr(event, "content", None)
        kind = content["type"] if content else event.event_type
        if kind in self.KINDS:
            self._events.put((kind, (content["data"] if content else event.payload) or {}))

    def told(self) -> str:
        """Say what the next digest did."""
        try:
            kind, done = self._events.get(timeout=5)
        except queue.Empty:
            return "no digest was started"
        if kind != "gumem.digested":
            return f"the digest failed ({done.get('error')}), its messages wait"
        return (
            f"{done['messages']} messages; Facts: {done['new']} new, {done['superseded']} "
            f"superseded; Summaries: {done['summaries']}; "
            f"memo: {'changed' if done['memo_changed'] else 'as it was'}"
        )


def play(agent: Any, memory: AgentMemory, story: Story, when: Watched) -> None:
    """Let the first session happen, and tell when the memory digests it."""
    digests, session_id = Digests(), memory.session().session_id
    for step in story["script"]:
        if "did" in step:
            at = moment(step["when"])
            action = {"content": step["did"], "event_type": step["event"], "timestamp": at}
            memory.user.add_actions({**action, "page": step.get("page", "")}, session_id)
            show(step["did"], f"  log   {at:%m-%d %H:%M}  ")
        elif "said" in step:
            show(step["said"], "  user  ")
            show(str(agent.input(step["said"]).start()), "  agent ")
        else:
            show(step["stage"], "  stage ended: ")
            memory.mark_stage(step["stage"])
        memory.flush(MODEL_SECONDS)
        for reason in when.reasons:
            show(reason, bold("  >> trigger fired: "), "     ")
            show(digests.told(), "     digested: ", "     ")
        when.reasons.clear()


def source(message: Message) -> str:
    who = message.role if message.event_type == "message" else message.event_type
    at = f"{message.timestamp.astimezone():%m-%d %H:%M} " if message.timestamp else ""
    return f"{at}{who}: {message.content}"


def show_memory(user: User, expect: Mapping[str, Any]) -> bool:
    """Show what the memory holds, and compare it with what the story expects."""
    messages = {m.id: m for m in user.messages()}
    facts, topics, summaries, memo = user.facts(), user.topics(), user.summaries(), user.memo
    heading(f"Facts ({len(facts)}), each with the messages that say it")
    for place, fact in enumerate(facts, 1):
        show(f"{fact.content}  [{fact.kind}, {fact.certainty}]", f"  {place:2}. ")
        for message_id in fact.source_message_ids:
            show(source(messages[message_id]), "      <- ")
    heading("Topics")
    for topic in topics:
        show(f"{topic.name} ({len(user.facts(topic=topic.name))} Facts)")
    heading("Summaries")
    for summary in summaries:
        show(summary.content, f"  [{summary.topic}] ", "    ")
    heading("Memo")
    show(json.dumps(memo, ensure_ascii=False, indent=2))
    heading("Is it all there?")
    texts = {
        "topic": "\n".join(t.name for t in topics),
        "summary": "\n".join(s.content for s in summaries),
        "memo": json.dumps(memo, ensure_ascii=False) if memo else "",
    }
    complete = check_facts([f.content for f in facts], expect.get("facts", []))
    for what, text in texts.items():
        complete &= check(what, text, expect.get(what, []))
    return complete


def first_session(path: Path, story: Story) -> bool:
    when = Watched(EveryNTurns(int(story.get("every_n_turns", 2))), StageBoundary())
    with chat_model(answering(story)) as (settings, rules), GUMem(path) as gumem:
        show(story["title"], "Story: ")
        show(
            "RuleModel on loopback: no language model. It reads statements by plain rules; set "
            "GUMEM_BASE_URL, GUMEM_MODEL and GUMEM_API_KEY for a real one."
            if rules
            else f"{settings['model']} at {settings['base_url']}",
            "Model: ",
        )
        show("embedded Chroma in a temporary folder, the bundled embedder", "Store: ")
        heading(f"First session, process {os.getpid()}")
        agent = Agently.create_agent()
        agent.set_settings("OpenAICompatible", settings)
        memory = gumem.attach(agent, user_id=story["user_id"], when=when)
        agent.activate_session(session_id="first")
        play(agent, memory, story, when)
        return show_memory(gumem.user(story["user_id"]), story["expect"])


def answering(story: Story) -> Callable[[Request], str]:
    """Make the RuleModel's side of the chat: the story's replies, else what memory brought."""
    replies = {s["said"]: s["reply"] for s in story["script"] if "said" in s and "reply" in s}

    def answer(request: Request) -> str:
        if request.question in replies:
            return replies[request.question]
        lines = [x for x in (request.memo_section or "").splitlines() if x.startswith("- ")]
        return "\n".join(["(RuleModel only quotes what its memory section holds)", *lines])

    return answer


# -- the second session ----------------------------------------------------------------------------


def second_session(path: Path, story: Story) -> bool:
    """Ask as a new session of the same user; what stood in the request is all that is known."""
    heading(f"Second session, process {os.getpid()}: opens the same store")
    seen: list[str] = []

    def watch(prompt: Any, _settings: Any) -> None:
        seen.append(str(prompt.get(SECTION) or ""))

    with chat_model(answering(story)) as (settings, rules), GUMem(path) as gumem:
        agent = Agently.create_agent()
        agent.set_settings("OpenAICompatible", settings)
        gumem.attach(agent, user_id=story["user_id"])
        agent.extension_handlers.append("request_prefixes", watch)
        agent.activate_session(session_id="second")
        show(story["question"], "  user  ")
        answer = str(agent.input(story["question"]).start())
        if rules is not None:
            section = rules.chat_requests[-1].memo_section or ""
            told = "as the model's server received it"
        else:
            section, told = seen[-1] if seen else "", "as the prompt held it"
    show(answer, "  agent ")
    heading(f"{SECTION}, {told}")
    show(section or "(nothing)", "  | ", "  | ")
    heading("Did it reach the model?")
    return check("context", section, story["expect"].get("context", []))


# -- both ------------------------------------------------------------------------------------------


def demo(story_path: Path) -> bool:
    story = load(story_path)
    with tempfile.TemporaryDirectory(prefix="gumem-demo-") as folder:
        complete = first_session(Path(folder), story)
        sys.stdout.flush()
        command = [sys.executable, str(Path(__file__).resolve()), SECOND, folder, str(story_path)]
        # S603: what runs is this very script.
        second = subprocess.run(command, check=False, timeout=2 * MODEL_SECONDS)  # noqa: S603  # our own command
    complete = complete and second.returncode == 0
    heading("Complete" if complete else "NOT COMPLETE")
    if not complete:
        print("demo: what is marked MISSING above was not found", file=sys.stderr)
    return complete


def main() -> int:
    if sys.argv[1:2] == [SECOND]:
        return 0 if second_session(Path(sys.argv[2]), load(Path(sys.argv[3]))) else 1
    default = Path(__file__).parent / "stories" / "running_shoes.json"
    return 0 if demo(Path(os.environ.get("GUMEM_STORY") or default)) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:  # noqa: BLE001  # whatever it is, a demo ends with a sentence
        sys.exit(f"demo: {type(error).__name__}: {error}")
