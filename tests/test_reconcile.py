"""New Facts against known ones."""

from collections.abc import Callable
from datetime import datetime, timezone

import pytest
from cputime import spent
from hypothesis import given, settings
from hypothesis import strategies as st

from agently_gumem.embedder import Embedder
from agently_gumem.records import Fact
from agently_gumem.remember.reconcile import (
    RELATED_SIMILARITY,
    Proposal,
    Reconciled,
    differs,
    reconcile,
)

NOW = datetime(2026, 5, 6, tzinfo=timezone.utc)


def fact(id_: str, content: str, source: str = "", **more: object) -> Fact:
    """Build a Fact."""
    fields = {"user_id": "u", "created_at": NOW, "updated_at": NOW, "session_ids": ["s1"], **more}
    return Fact.model_validate(
        {"id": id_, "content": content, "source_message_ids": [source or f"m-{id_}"], **fields}
    )


def run(
    proposals: list[Proposal], *known: Fact, similarity: dict[tuple[str, str], float] | None = None
) -> Reconciled:
    """Reconcile with every active Fact shown as k1, k2, ..."""
    shown = [f for f in known if f.validity == "active"]
    refs = {f"k{i}": f for i, f in enumerate(shown, start=1)}
    return reconcile(proposals, {f.id: f for f in known}, refs, similarity or {}, NOW)


def after(known: tuple[Fact, ...], done: Reconciled) -> dict[str, Fact]:
    """Give the Facts as they are once written."""
    return {f.id: f for f in known} | {f.id: f for f in done.facts}


def test_same_text_is_the_same_fact_and_joins_its_sources() -> None:
    """Said again it is one Fact with two sources, in the batch or across."""
    known = fact("a", "User likes tea.")
    twice = [
        Proposal("f1", fact("b", "user  likes TEA")),
        Proposal("f2", fact("c", "User likes tea.")),
    ]
    done = run(twice, known)
    assert [f.id for f in done.facts] == ["a"]
    assert done.facts[0].source_message_ids == ["m-a", "m-b", "m-c"]
    assert done.by_ref == {"f1": "a", "f2": "a"}
    assert done.new == ()


def test_same_text_about_another_person_is_another_fact() -> None:
    """The subject is part of what is the same."""
    done = run([Proposal("f1", fact("b", "Likes tea.", subject="Anna"))], fact("a", "Likes tea."))
    assert done.new == ("b",)


def test_correction_supersedes() -> None:
    """What is no longer true is deprecated, dated, and points to its successor."""
    known = fact("a", "最喜欢的球员是罗纳尔多。", topic="football")
    new = fact("b", "现在最喜欢的球员是梅西。", topic="Football", valid_from=NOW.replace(day=5))
    done = run([Proposal("f1", new, replaces=("k1",))], known)
    old = after((known,), done)["a"]
    assert (old.validity, old.superseded_by, old.valid_to) == (
        "deprecated",
        "b",
        NOW.replace(day=5),
    )
    assert done.superseded == ("a",)
    assert done.new == ("b",)


def test_like_hate_like_leaves_the_last() -> None:
    """Said again after a change of mind it is a new Fact that ends what stands now."""
    first = fact("a", "User likes coffee.")
    done = run([Proposal("f1", fact("b", "User hates coffee."), replaces=("k1",))], first)
    known = tuple(after((first,), done).values())
    again = run([Proposal("f1", fact("c", "User likes coffee."))], *known)
    end = after(known, again)
    assert [f.id for f in end.values() if f.validity == "active"] == ["c"]
    assert end["b"].superseded_by == "c"


def test_a_batch_resolves_in_order() -> None:
    """The third of like, hate, like is a Fact of its own again."""
    known = fact("a", "User likes coffee.")
    batch = [
        Proposal("f1", fact("b", "User likes coffee.")),
        Proposal("f2", fact("c", "User hates coffee."), replaces=("k1",)),
        Proposal("f3", fact("d", "User likes coffee.")),
    ]
    done = run(batch, known)
    assert [f.id for f in after((known,), done).values() if f.validity == "active"] == ["d"]
    assert done.by_ref == {"f1": "a", "f2": "c", "f3": "d"}


def test_unrelated_fact_is_not_retired() -> None:
    """The model's verdict counts only on what has something in common."""
    known = fact("a", "User lives in Berlin.", topic="home")
    new = Proposal("f1", fact("b", "User hates coffee.", topic="drinks"), replaces=("k1",))
    done = run([new], known)
    assert done.refused == {"f1": "unrelated"}
    assert done.superseded == ()
    assert run([new], known, similarity={("f1", "k1"): 0.7}).superseded == ("a",)


def test_a_guess_retires_nothing() -> None:
    """Neither by the model's verdict nor by telling again what was given up."""
    known = fact("a", "User likes coffee.", topic="drinks")
    guess = fact("b", "User likes tea.", topic="drinks", certainty="inferred", confidence=0.1)
    done = run([Proposal("f1", guess, replaces=("k1",))], known)
    assert (done.superseded, done.refused, done.new) == ((), {"f1": "guess"}, ("b",))
    changed = run([Proposal("f1", fact("b", "User hates coffee."), replaces=("k1",))], known)
    state = tuple(after((known,), changed).values())
    again = run([Proposal("f1", fact("c", "User likes coffee.", certainty="inferred"))], *state)
    assert (again.superseded, again.refused) == ((), {"f1": "guess"})


def test_what_was_said_before_retires_nothing() -> None:
    """An older message that comes late is no correction; without both times it may be one."""
    known = fact("a", "User lives in Rome.", topic="home", valid_from=NOW)
    for day, refused in ((5, {"f1": "older"}), (6, {}), (7, {})):
        new = fact("b", "User moved to Oslo.", topic="home", valid_from=NOW.replace(day=day))
        assert run([Proposal("f1", new, replaces=("k1",))], known).refused == refused
    undated = fact("b", "User moved to Oslo.", topic="home")
    assert run([Proposal("f1", undated, replaces=("k1",))], known).superseded == ("a",)
    gone = fact("a", "User likes coffee.", validity="deprecated", superseded_by="b")
    now = fact("b", "User hates coffee.", valid_from=NOW)
    late = Proposal("f1", fact("c", "User likes coffee.", valid_from=NOW.replace(day=1)))
    assert run([late], gone, now).refused == {"f1": "older"}


def test_nothing_ends_before_it_began() -> None:
    """What joins an old Fact retires from its own time on, not from that of the old one."""
    tea = fact("a", "User drinks tea.", valid_from=NOW.replace(day=1))
    coffee = fact("b", "User drinks coffee.", valid_from=NOW.replace(day=3))
    new = fact("c", "User drinks tea.", valid_from=NOW.replace(day=5))
    done = run([Proposal("f1", new, replaces=("k2",))], tea, coffee)
    old = after((tea, coffee), done)["b"]
    assert (old.superseded_by, old.valid_to) == ("a", NOW.replace(day=5))


def test_the_name_of_a_topic_retires_two_at_most() -> None:
    """The topic is the model's own word; what shares a term or is near counts beside it."""
    known = [fact(f"d{i}", f"User likes dish{i}x.", topic="food") for i in range(20)]
    known += [fact("t", "User likes tea cold.", topic="food"), fact("n", "User likes Oolong.")]
    every = tuple(f"k{i}" for i in range(1, 23))
    new = Proposal("f1", fact("b", "User likes tea.", topic="food"), replaces=every)
    done = run([new], *known, similarity={("f1", "k22"): 0.7, ("f1", "k9"): 0.6})
    assert done.superseded == ("d0", "d1", "t", "n")
    assert done.refused == {"f1": "unrelated"}


@pytest.fixture(scope="module")
def near() -> Callable[[str, str], float]:
    """Give the cosine of the bundled embedder."""
    embedder = Embedder()

    def cosine(a: str, b: str) -> float:
        one, other = embedder.embed([a, b])
        return float(one @ other)

    return cosine


@pytest.mark.parametrize(
    ("old", "new", "corrected"),
    [
        ("User lives in Beijing", "用户搬到上海了", True),
        ("用户单身。", "User got married last month.", True),
        ("用户在腾讯上班。", "User joined ByteDance.", True),
        ("User prefers window seats", "用户改坐靠过道的座位", True),
        ("User lives in Berlin.", "User moved to Madrid.", True),
        ("User likes tea", "User bought a car", False),
        ("用户喜欢喝茶。", "用户买了一辆车。", False),
        ("User is married.", "用户用安卓手机。", False),
        ("User lives in Berlin.", "User has two cats.", False),
    ],
)
def test_the_only_one_named_needs_less_in_common(
    near: Callable[[str, str], float], old: str, new: str, corrected: bool
) -> None:
    """A correction in the other language holds; an unrelated Fact retires nothing."""
    known, cosine = fact("a", old, topic="x"), near(old, new)
    one = Proposal("f1", fact("b", new, topic="y"), replaces=("k1",))
    done = run([one], known, similarity={("f1", "k1"): cosine})
    assert bool(done.superseded) == corrected
    two = Proposal("f1", fact("b", new, topic="y"), replaces=("k1", "k2"))
    assert cosine < RELATED_SIMILARITY
    pair = run([two], known, fact("z", "Zebras."), similarity={("f1", "k1"): cosine})
    assert pair.refused == {"f1": "unrelated"}
    assert pair.superseded == ()


def test_verdict_counts_on_shown_candidates_of_the_same_subject_only() -> None:
    """An invented reference or somebody else's Fact is refused; the new Fact stays."""
    known = fact("a", "Drinks tea.", subject="Anna")
    unknown = run([Proposal("f1", fact("b", "Drinks coffee."), replaces=("k9",))], known)
    other = run([Proposal("f1", fact("b", "Drinks coffee."), replaces=("k1",))], known)
    assert (unknown.refused, other.refused) == ({"f1": "unknown"}, {"f1": "subject"})
    assert unknown.new == other.new == ("b",)


def test_same_as_joins_a_paraphrase_and_keeps_a_near_miss_apart() -> None:
    """The model may say that two are the same, unless a rule forbids it."""
    known = fact("a", "User's budget for headphones is below 800 yuan.")
    para = fact("b", "The user wants to spend less than 800 RMB on headphones.")
    miss = fact("c", "User's budget for headphones is below 500 yuan.")
    assert run([Proposal("f1", para, same_as="k1")], known).by_ref == {"f1": "a"}
    done = run([Proposal("f1", miss, same_as="k1")], known)
    assert (done.by_ref, done.refused) == ({"f1": "c"}, {"f1": "number"})


def test_who_replaces_never_joins_it() -> None:
    """With both verdicts on one candidate the new Fact takes its place."""
    known = fact("a", "用户喜欢喝茶。")
    new = Proposal("f1", fact("b", "用户如今爱喝茶。"), same_as="k1", replaces=("k1",))
    done = run([new], known)
    assert (done.new, done.superseded) == (("b",), ("a",))


def test_repeated_digest_brings_nothing_back() -> None:
    """After a crash the same proposals land on what they were."""
    known = fact("a", "User likes coffee.")
    batch = [Proposal("f1", fact("b", "User hates coffee."), replaces=("k1",))]
    state = after((known,), run(batch, known))
    assert reconcile(batch, state, {"k1": known}, {}, NOW).facts == ()
    old = [Proposal("f1", known)]
    assert reconcile(old, state, {}, {}, NOW).facts == ()


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ("用户每天跑步五公里。", "用户天天跑5公里。", ""),
        ("用户的会议改到周四下午三点。", "会议时间调整为星期四15点。", ""),
        ("小雨是用户的女儿。", "用户的女儿叫小雨。", ""),
        ("用户不吃香菜。", "用户讨厌香菜，菜里不要放。", ""),
        ("User's budget is under 500 yuan.", "用户预算不超过500元。", ""),
        ("用户预算在800元以内。", "用户预算在500元以内。", "number"),
        ("User uses PostgreSQL 16.", "User uses PostgreSQL 14.", "number"),
        ("User is allergic to nuts.", "User isn't allergic to nuts.", "negation"),
        ("用户吃肉。", "用户不吃肉。", "negation"),
        ("User meets Anna on Monday.", "User meets Anna on Tuesday.", "date"),
        ("Rent is due on May 3.", "Rent is due on May 4.", "date"),
        ("User is vegetarian.", "User's sister is vegetarian.", "subject"),
        ("用户的女儿叫小雨。", "用户的儿子叫小雨。", "subject"),
        ("用户住在北京朝阳区。", "用户住在北京海淀区。", "name"),
        ("User needs the report by Friday.", "User needs the slides by Friday.", "name"),
        ("User works with Anna.", "User works with Hannah.", "name"),
    ],
)
def test_what_forbids_the_same(a: str, b: str, reason: str) -> None:
    """Paraphrases pass; another number, date, name, person or a negation does not."""
    assert differs(a, b) == differs(b, a) == reason


_TEXTS = st.sampled_from(["likes tea", "hates tea", "drinks tea", "lives in Rome", "likes TEA"])
_BATCH = st.lists(
    st.tuples(_TEXTS, st.sets(st.integers(1, 4), max_size=2), st.integers(0, 4)), max_size=6
)


def _build(batch: list[tuple[str, set[int], int]], start: int) -> list[Proposal]:
    return [
        Proposal(f"f{i}", fact(f"n{start + i}", text), f"k{same}" if same else "",
                 tuple(f"k{k}" for k in sorted(replaced)))
        for i, (text, replaced, same) in enumerate(batch)
    ]  # fmt: skip


@given(st.lists(_BATCH, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_active_fact_goes_without_an_active_end(
    batches: list[list[tuple[str, set[int], int]]],
) -> None:
    """Whatever the model claims: no Fact is lost, chains end in an active one, texts are unique."""
    known: tuple[Fact, ...] = ()
    for i, batch in enumerate(batches):
        done = run(_build(batch, i * 10), *known)
        state = after(known, done)
        assert set(done.by_ref.values()) <= set(state)
        known = tuple(state.values())
        for item in known:
            steps = 0
            while item.validity != "active":
                item = state[item.superseded_by]  # noqa: PLW2901
                steps += 1
                assert steps <= len(state)
        active = [f.content.lower() for f in known if f.validity == "active"]
        assert len(active) == len(set(active))


@given(_BATCH)
@settings(max_examples=60, deadline=None)
def test_identical_text_twice_changes_nothing(batch: list[tuple[str, set[int], int]]) -> None:
    """Reconciling what is already there writes nothing."""
    plain = [Proposal(p.ref, p.fact) for p in _build(batch, 0)]
    state = after((), run(plain))
    assert reconcile(plain, state, {}, {}, NOW).facts == ()


@pytest.mark.parametrize(
    "content",
    [
        "User keeps notes in documentation/architecture/overview.md",
        "User reads www.example-company.com/careers/engineering",
        "User says " + "a" * 480,
    ],
)
def test_a_path_or_a_long_word_is_compared_at_once(content):
    """What repeats letters and separators takes no longer to read than to write."""
    assert spent(differs, content, content.replace("User", "The user")) < 1


def test_five_changes_with_a_value_that_comes_back_make_one_chain() -> None:
    """A, B, C, A, D, E: each superseded once, with its time, its successor and its cause."""
    sizes = (42, 43, 44, 42, 45, 46)
    known: tuple[Fact, ...] = ()
    for day, size in enumerate(sizes, 1):
        at = NOW.replace(day=day)
        new = fact(f"n{day}", f"User wears size {size}", valid_from=at)
        done = run([Proposal("f1", new, replaces=("k1",) if known else ())], *known)
        assert not done.refused
        known = tuple(after(known, done).values())
    by_id = {f.id: f for f in known}
    assert [f.id for f in known if f.validity == "active"] == ["n6"]
    for day in range(1, 6):
        gone = by_id[f"n{day}"]
        assert (gone.superseded_by, gone.valid_to) == (f"n{day + 1}", NOW.replace(day=day + 1))
        assert (gone.changes[-1].what, gone.changes[-1].by) == ("superseded", [f"m-n{day + 1}"])


def test_an_old_value_that_is_told_late_stays_the_past() -> None:
    """Its message was with the model while the Fact was corrected: it joins what was given up."""
    gone = fact("a", "User wears size 42", validity="deprecated", superseded_by="b", valid_to=NOW)
    now = fact("b", "User wears size 43", valid_from=NOW)
    late = fact("c", "User wears size 42", valid_from=NOW.replace(day=1))
    done = run([Proposal("f1", late)], gone, now)
    assert (done.new, done.by_ref, done.refused) == ((), {"f1": "a"}, {"f1": "older"})
    (joined,) = done.facts
    assert (joined.validity, joined.source_message_ids) == ("deprecated", ["m-a", "m-c"])
    guess = late.model_copy(update={"certainty": "inferred"})
    assert run([Proposal("f1", guess)], gone, now).facts == ()


def test_a_verdict_of_an_older_message_is_turned_round() -> None:
    """What was said before the Fact that it is to replace is what that Fact replaced."""
    known = fact("a", "User lives in Rome.", topic="home", valid_from=NOW)
    late = fact("b", "User moved to Oslo.", topic="home", valid_from=NOW.replace(day=1))
    state = after((known,), run([Proposal("f1", late, replaces=("k1",))], known))
    assert (state["a"].validity, state["b"].superseded_by) == ("active", "a")
    assert state["b"].valid_to == NOW


@pytest.mark.parametrize(("day", "active"), [(7, ["c"]), (5, ["b"])])
def test_a_verdict_on_what_was_superseded_meanwhile_is_on_its_successor(
    day: int, active: list[str]
) -> None:
    """The newer of the two corrections stands, whichever comes to be written last."""
    shown = fact("a", "User wears size 42")
    gone = shown.model_copy(update={"validity": "deprecated", "superseded_by": "b"})
    now = fact("b", "User wears size 43", valid_from=NOW)
    mine = fact("c", "User wears size 44", valid_from=NOW.replace(day=day))
    known = {f.id: f for f in (gone, now)}
    done = reconcile([Proposal("f1", mine, replaces=("k1",))], known, {"k1": shown}, {}, NOW)
    state = after((gone, now), done)
    assert [f.id for f in state.values() if f.validity == "active"] == active


@pytest.mark.parametrize(
    ("other", "goes"),
    [
        ("User's shoe size is 42", True),
        ("The shoe size of User's brother is 42", False),
        ("User wears shoe size 43 in winter", False),
        ("User has 42 stamps", False),
    ],
)
def test_a_correction_ends_what_says_the_old_value_in_other_words(other: str, goes: bool) -> None:
    """The model names one of two Facts that say the same; both are wrong then."""
    known = (fact("a", "User wears shoe size 42"), fact("d", other))
    done = run([Proposal("f1", fact("b", "User wears shoe size 43"), replaces=("k1",))], *known)
    assert done.superseded == (("a", "d") if goes else ("a",))
