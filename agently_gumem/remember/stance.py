"""What a sentence claims in earnest of its speaker: not denied, not of others, not imagined (pure).

A Fact can hold every word of its message and still say what nobody said: "I don't like tea" is no
liking, "my son is 6" no age of the user's, "if I were rich" no wealth. Only what is sure is
refused: each check looks at the clauses that say what the Fact says, and one that supports it is
enough. On LoCoMo's 1,210 facts, each with its cited turn, none is refused.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from agently_gumem.dates import normal
from agently_gumem.remember import _wording as say
from agently_gumem.remember.same.polarity import NEGATION, NO_NEGATION, denial_codes
from agently_gumem.text import CJK, fold, is_chinese, sentences, words

# A clause says what a Fact says where it holds so much of its words.
_SHARE = 0.5
_CLAUSE = re.compile(
    r"[,;，；、]\s*|\s+(?:but|while|whereas|although|though)\s+|(?:但是?|不过|可是|而(?!且|是|非))"
    r"|\s+and\s+(?=(?:i|we|he|she|they|it|it['’]s|my|his|her|our|their)\b)|\s[-–—]+\s|—"
)


@dataclass(frozen=True)
class _Clause:
    text: str
    """As it is compared: folded."""
    follows: str = ""
    """The clause after it."""


def misread(content: str, told: Sequence[str], names: Collection[str] = ()) -> str:
    """Say why no sentence of a text claims a Fact of its speaker in earnest.

    Args:
        content: The Fact.
        told: What its sources say, one text each, of people only.
        names: Names of those who speak: a Fact may begin with one in place of "User".

    Returns:
        "negation", "subject", "hypothetical", "quotation", "joke", or "" where nothing is wrong.
    """
    fact = fold(normal(content))
    texts = [normal(text) for text in told]
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("quotation", lambda: _only_quoted(fact, texts)),
        ("joke", lambda: _only_joked(fact, texts)),
        ("hypothetical", lambda: _only_imagined(fact, texts)),
        ("subject", lambda: _of_another(fact, texts, names)),
        ("negation", lambda: _denied(fact, texts)),
    )
    return next((reason for reason, wrong in checks if wrong()), "")


def _sentences(text: str) -> list[str]:
    return [fold(sentence) for sentence in sentences(text)]


def _clauses(texts: Sequence[str]) -> list[_Clause]:
    found: list[_Clause] = []
    for text in texts:
        for sentence in _sentences(text):
            parts = [p.strip() for p in _CLAUSE.split(sentence) if p and p.strip()]
            following = [*parts[1:], ""]
            found += [_Clause(*pair) for pair in zip(parts, following, strict=False)]
    return found


def _carried(text: str) -> frozenset[str]:
    """Collect what a sentence says, its subject and light words left out; numbers count."""
    bare = say.LIGHT.sub(" ", say.OF_USER.sub(" ", text))
    liked = say.LIKE.sub(" ", say.DISLIKE.sub(" ", bare))
    return frozenset(words(liked)) or frozenset(words(bare))


def _share(wanted: frozenset[str], text: str) -> float:
    said = frozenset(words(text))
    held = sum(term in said or (CJK.match(term) is not None and term in text) for term in wanted)
    return held / len(wanted) if wanted else 0.0


def _best(fact: str, clauses: Sequence[_Clause]) -> list[_Clause]:
    """Find the clauses that say most of what a Fact says; none where they say too little."""
    wanted = _carried(fact)
    numbers = {word for word in wanted if word.isdecimal()}
    naming = [c for c in clauses if numbers & {*words(c.text)}]
    clauses = naming or clauses
    shares = [_share(wanted, c.text) for c in clauses]
    most = max(shares, default=0.0)
    return [c for c, s in zip(clauses, shares, strict=True) if s >= max(most, _SHARE)]


def _lost(fact: str, texts: Sequence[str], left: Sequence[str]) -> bool:
    """Tell whether a Fact is held by texts, and no more by what is left of them."""
    wanted = _carried(fact)
    before = max((_share(wanted, s) for t in texts for s in _sentences(t)), default=0.0)
    after = max((_share(wanted, s) for t in left for s in _sentences(t)), default=0.0)
    return before >= _SHARE and after < min(before, _SHARE)


def _only_quoted(fact: str, texts: Sequence[str]) -> bool:
    """Tell whether a Fact stands in what somebody else is quoted with, in the first person."""
    if _others(fact) or not any(mark in text for text in texts for mark in "“\"「『'‘"):
        return False
    return _lost(fact, texts, [say.QUOTES.sub(_unless_own, text) for text in texts])


def _unless_own(match: re.Match[str]) -> str:
    before = fold(match.string[max(0, match.start() - 40) : match.start()])
    quoted = fold(match.group())
    others = say.SAYS.search(before) is not None and not say.I_SAID.search(before)
    return " " if others and say.FIRST_PERSON.search(quoted) else match.group()


def _only_joked(fact: str, texts: Sequence[str]) -> bool:
    left = [_after_joke(text) for text in texts]
    return left != list(texts) and _lost(fact, texts, left)


def _after_joke(text: str) -> str:
    """Take back what stands before "just kidding"."""
    folded = text.lower()
    found = say.JOKE.finditer(folded)
    last = [m for m in found if not say.NOT_A_JOKE.search(folded[max(0, m.end() - 24) : m.end()])]
    return text[last[-1].end() :] if last and len(folded) == len(text) else text


def _only_imagined(fact: str, texts: Sequence[str]) -> bool:
    said = [s for text in texts for s in _sentences(text)]
    if say.SUPPOSED.search(fact) or not any(say.IMAGINED.search(s) for s in said):
        return False
    real = [s for s in said if not say.IMAGINED.search(s)]
    return not real or _lost(fact, said, real)


def _of_another(fact: str, texts: Sequence[str], names: Collection[str]) -> bool:
    """Tell whether the clauses that say what a Fact says of the user say it of somebody else."""
    said, own = _said_of_user(fact, names)
    if not said or _others(fact):
        return False
    best = [c for c in _best(fact, _clauses(texts)) if c.text]
    return bool(best) and all(_about_another(c, said, own=own) for c in best)


def _others(fact: str) -> bool:
    return say.OTHERS_IN_FACT.search(say.TRADES.sub(" ", fact)) is not None


def _said_of_user(fact: str, names: Collection[str]) -> tuple[str, bool]:
    """Return what a Fact says of the user, and whether it is of something that is the user's."""
    match = say.OF_USER.match(fact)
    if match:
        return fact[match.end() :].strip(), bool(match.group("own") or match.group("ownc"))
    for name in map(fold, names):
        if name and fact.startswith(name):
            rest = fact[len(name) :]
            own = rest.startswith(("'s", "’s", "的"))
            return rest.lstrip("'’s的 ") if own else rest.strip(), own
    return "", False


def _about_another(clause: _Clause, said: str, *, own: bool) -> bool:
    match = (say.OTHER_CN if is_chinese(clause.text) else say.OTHER).match(clause.text)
    if match is None or say.TOO.search(clause.follows) or say.TOO.search(clause.text):
        return False
    rest = clause.text[match.end() :]
    if say.MINE.search(rest) or bool(match.group("own")) != own:
        return False
    mine, theirs = _head(said), _head(say.REPORTED.sub("", rest))
    return bool(mine) and mine == theirs


def _head(text: str) -> str:
    """Return the first word that carries meaning; of Chinese the first two characters."""
    plain = say.LIGHT.sub(" ", text).strip()
    found = words(plain)
    if not found or not CJK.match(found[0]):
        return found[0] if found else ""
    return plain[:2]


def _denied(fact: str, texts: Sequence[str]) -> bool:
    """Tell whether the clauses that say what a Fact says deny it, or affirm what it denies.

    Clause by clause: "wants a shoe, not too hard" affirms one thing and denies another.
    """
    clauses = _clauses(texts)
    parts = [clause.text for clause in _clauses([fact])]
    bests = [_best(part, clauses) for part in parts]
    if not any(bests):
        return not say.COMPARES.search(fact) and _across(fact, clauses)
    wanted = _carried(fact)
    told = any(_denials(c.text) for c in clauses if _share(wanted, c.text) > 0)
    both = told and _denials(fact) > 0  # each denies something: which, only a liking tells
    return any(
        not say.COMPARES.search(part) and all(_opposite(part, c.text, both=both) for c in best)
        for part, best in zip(parts, bests, strict=True)
        if best
    )


def _across(fact: str, clauses: Sequence[_Clause]) -> bool:
    """Compare liking alone where no words are shared: a Fact in another language."""
    mine = _liking(fact)
    if not mine or any(is_chinese(c.text) == is_chinese(fact) for c in clauses):
        return False
    theirs = {_liking(c.text) for c in clauses if not say.COMPARES.search(c.text)} - {0}
    return theirs == {-mine}


def _opposite(fact: str, clause: str, *, both: bool) -> bool:
    if say.COMPARES.search(clause):
        return False
    mine, theirs = _liking(fact), _liking(clause)
    if mine and theirs:
        return mine != theirs
    denials = (_denials(fact), _denials(clause))
    if both or max(denials) > 1 or bool(denials[0]) == bool(denials[1]):
        return False
    if denial_codes(fact) != denial_codes(clause):
        return False
    return _same_head(fact, clause)


def _same_head(fact: str, clause: str) -> bool:
    """Ask for the same thing said: "no meetings on Fridays" does not deny "keeps Fridays free"."""
    said, _ = _said_of_user(fact, ())
    plain = say.NEGATING.sub(" ", _plain(said or fact))
    head = _head(plain)
    head = say.PRESENT.get(head, head)
    other = say.NEGATING.sub(" ", _plain(clause))
    if CJK.match(head):
        return head in other
    return bool(head) and head in {say.PRESENT.get(word, word) for word in words(other)}


def _plain(text: str) -> str:
    return NO_NEGATION.sub(" ", say.AFFIRMS.sub(" ", say.COMPOUND.sub(" ", text)))


def _denials(text: str) -> int:
    """Count the words that turn a sentence around; two may turn it back, or not."""
    plain = _plain(text)
    return len(NEGATION.findall(plain)) + len(say.DENIES_TOO.findall(plain))


def _liking(text: str) -> int:
    """Tell liking (1), disliking (-1), or neither, or both (0)."""
    plain = _plain(text)
    dislikes = len(say.DISLIKE.findall(plain))
    likes = len(say.LIKE.findall(say.DISLIKE.sub(" ", plain)))
    if bool(dislikes) == bool(likes):
        return 0
    other = len(NEGATION.findall(say.DISLIKE.sub(" ", plain)))
    if other > 1 or (dislikes and other):
        return 0
    return -1 if dislikes or other else 1
