"""Recognise what a user tells the assistant to do: standing instructions, and requests.

Only the user's own words count: not code, quotations, tagged blocks or what was pasted. A sentence instructs
if it is in the imperative or asks the assistant; a fact about the speaker ("I never eat meat") does not.
Known are English, German, French, Spanish, Chinese, Japanese and Korean.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from onlooker.policy.reply.note_text import clean
from onlooker.policy.secrets import mask
from onlooker.policy.text import Phrases, clauses, each_clause, is_cjk, plain_words, regex, sentences
from onlooker.policy.tokens import estimate, fits

_MAX_INSTRUCTION = 90  # tokens


def fold(text: str) -> str:
    """Return a text as the patterns here expect it. Ignoring case takes several times as long."""
    return text.lower().replace("’", "'")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# -- The user's own words: without code, quotations and what was pasted

_FENCED = regex(r"(?:^|\n)[ \t]*(```|~~~).*?(?:\n[ \t]*\1[^\n]*|\Z)", re.S)
_FENCE_LINE = regex(r"(?m)^[ \t]*(?:```|~~~).*$")
_OPENING_TAG = regex(r"<([A-Za-z][\w:-]{1,60})(?:\s[^<>\n]{0,300})?>")
_SHORT_TAG = 40  # characters: <b>never</b> is emphasis
_QUOTED_LINE = regex(r"(?m)^[ \t]*[>|].*$")
# From here on, the message is someone else's.
_PASTED = regex(
    r"(?im)^[ \t]*(?:-{2,}[ \t]*)?(?:original message|forwarded message|begin forwarded message"
    r"|weitergeleitete nachricht|message transféré|mensaje reenviado)\b.*$"
    r"|^(?:from|von|de|发件人|差出人): .*\n(?:(?:sent|to|date|cc|subject|an|gesendet|betreff|à|objet|para"
    r"|asunto|收件人|主题|宛先|件名): .*)"
    r"|^on .{4,80} wrote:[ \t]*$|^am .{4,80} schrieb .{0,80}:[ \t]*$|^le .{4,80} a écrit ?:[ \t]*$"
    r"|^[^\n]{0,80}\b(?:here(?:'s| is| are)|this is|below is|see) (?:the|a|an|my|our|what|some)\b[^\n]{0,60}"
    r"\b(?:e-?mail|mail|letter|document|doc|article|log|logs|output|text|file|transcript|page|error|trace"
    r"|contents?|code|readme|report|ticket|issue|post|spec|instructions|prompt|message)\b[^\n]{0,40}:[ \t]*$"
)
_PASTED_SIGNS = ("mess", "mensaj", "nachr")  # it has one of these, or a colon
_QUOTATION = regex(
    r"\"[^\"\n]{0,400}\"|“[^”\n]{0,400}”|「[^」\n]{0,400}」|『[^』\n]{0,400}』|`[^`\n]{1,400}`"
)
_MAX_CHARACTERS = 8_000
_MAX_SENTENCE_LENGTH = 800


def own_words(text: str) -> str:
    """Return what the user says in a message, without code, quoted lines, tagged blocks and pasted text."""
    if len(text) > 3 * _MAX_CHARACTERS:
        text = f"{text[:_MAX_CHARACTERS]}\n{text[-_MAX_CHARACTERS:]}"
    text = clean(text)
    if "```" in text or "~~~" in text:
        text = _FENCED.sub("\n", text)
    if "<" in text:
        # Masked first: without its tag, nothing says of a password that it is one.
        text = _without_blocks(mask(text), lambda _: "\n")
    if pasted := _pasted(text):
        text = text[: _end_of_own(pasted)]
    return _QUOTED_LINE.sub("", text) if ">" in text or "|" in text else text


# What stands for a text that was taken out: of characters that no script uses, and that a text is freed of.
_TAKEN_OUT = regex("\ue000(\\d{1,6})\ue001")
_PLACE_MARKS = {0xE000: None, 0xE001: None}
_CODE_ALONE = regex(r"(?m)^[ \t]*`[^`\n]{1,2000}`[ \t]*$")


def own_and_quoted(text: str) -> list[tuple[bool, str]]:
    """Split a message into the user's own words (True) and what they quote, attach or paste, in order."""
    quoted: list[str] = []

    def take(inside: str) -> str:
        quoted.append(_TAKEN_OUT.sub(lambda place: quoted[int(place[1])], inside))
        return f"\n\ue000{len(quoted) - 1}\ue001\n"

    if not text.isascii():
        text = text.translate(_PLACE_MARKS)
    if "`" in text or "~~~" in text:
        text = _FENCED.sub(lambda code: take(_FENCE_LINE.sub("", code[0])), text)
        text = _CODE_ALONE.sub(lambda code: take(code[0]), text)
    if "<" in text:
        text = _without_blocks(text, take)
    if pasted := _pasted(text):
        end = _end_of_own(pasted)
        text = text[:end] + take(text[end:])
    if ">" in text or "|" in text:
        text = _QUOTED_LINE.sub(lambda line: take(line[0]), text)
    if not quoted:  # as with most messages
        return [(True, text)] if text.strip() else []
    parts: list[tuple[bool, str]] = []
    for i, found in enumerate(_TAKEN_OUT.split(text)):
        is_own, part = i % 2 == 0, quoted[int(found)] if i % 2 else found
        if not part.strip():
            continue
        if parts and parts[-1][0] == is_own:
            parts[-1] = (is_own, f"{parts[-1][1]}\n{part}")
        else:
            parts.append((is_own, part))
    return parts


def _pasted(text: str) -> re.Match[str] | None:
    if ":" not in text:
        folded = text.casefold()
        if not any(sign in folded for sign in _PASTED_SIGNS):
            return None
    return _PASTED.search(text)


def _end_of_own(pasted: re.Match[str]) -> int:
    """The line that announces what was pasted is the user's, and what stood before it."""
    return pasted.end() if pasted[0].rstrip().endswith(":") else pasted.start()


def _without_blocks(text: str, take: Callable[[str], str]) -> str:
    """Replace tagged blocks. A tag that is only mentioned stays."""
    kept: list[str] = []
    at = 0
    never_closed: set[str] = set()
    for tag in _OPENING_TAG.finditer(text):
        name = tag[1]
        if tag.start() < at or name in never_closed:
            continue
        end = text.find(f"</{name}>", tag.end())
        if end < 0:
            never_closed.add(name)
            continue
        inside = text[tag.end() : end]
        kept.append(text[at : tag.start()])
        if len(inside) <= _SHORT_TAG and "\n" not in inside:
            kept.append(inside)
        else:
            kept.append(take(inside))
        at = end + len(name) + 3
    return "".join([*kept, text[at:]])


def tagged(text: str, name: str) -> str:
    """Return the first line of a tagged block, or ""."""
    start = text.find(f"<{name}>\n")
    end = text.find(f"</{name}>", start) if start >= 0 else -1
    lines = text[start + len(name) + 2 : end].strip().splitlines() if end >= 0 else []
    return " ".join(lines[0].split()) if lines else ""


# -- Standing instructions


class Said:
    """What a user says in a message, sentence by sentence, and which of them are standing instructions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.own = own_words(text)
        self.sentences = sentences(self.own)
        self.standing = [is_standing(sentence) for sentence in self.sentences]

    def instructions(self) -> list[str]:
        """Return the standing instructions, in the user's words with their condition, without secrets."""
        found: list[str] = []
        before = False
        for i, (sentence, standing) in enumerate(zip(self.sentences, self.standing, strict=True)):
            if before and _EXCEPTION.match(fold(sentence)):
                found[-1] = f"{found[-1]} {sentence}"
                continue
            if standing:
                words = _clause_of(sentence)
                both = f"{self.sentences[i - 1]} {words}"
                with_it = i > 0 and not before and _POINTS.search(fold(sentence))
                found.append(both if with_it and fits(both, _MAX_INSTRUCTION) else words)
            before = standing
        return [" ".join(cut(mask(text), _MAX_INSTRUCTION).split()) for text in found]


@lru_cache(maxsize=64)  # a note and the items from it are made of the same messages
def heard(text: str) -> Said:
    """Read what a user says in a message."""
    return Said(text)


def is_standing(sentence: str) -> bool:
    """Return whether a sentence tells the assistant what to do from now on."""
    said = _unquoted(sentence[:_MAX_SENTENCE_LENGTH]).strip()
    words = plain_words(said)
    if not _MAYBE_STANDING.search(said, words):
        return False
    if is_cjk(said):
        return any(rule(said) for rule in (_in_chinese, _in_japanese, _in_korean))
    if _ENCOURAGES.search(said, words):
        return False
    return _in_english(said, words) or any(
        phrases.search(said, words) and not said.endswith("?")
        for phrases in (_GERMAN, _FRENCH, _SPANISH, _ENDS)
    )


@lru_cache(maxsize=64)  # a sentence is asked about several times in a row
def _unquoted(sentence: str) -> str:
    """Return a sentence in small letters, with "…" for what it quotes."""
    folded = fold(sentence)
    may_quote = '"' in folded or "`" in folded or not folded.isascii()
    return _QUOTATION.sub("…", folded) if may_quote else folded


def _clause_of(sentence: str) -> str:
    """Return the whole sentence, or of a long one the clauses from the first that instructs."""
    if fits(sentence, _MAX_INSTRUCTION):
        return sentence
    parts = clauses(sentence)
    first = next((i for i, part in enumerate(parts) if is_standing(part)), 0)
    start = sentence.find(parts[first]) if parts else 0
    return sentence[max(0, start) :]


_MAYBE_STANDING = Phrases(
    r"\b(?:always|never|ever|from (?:now|here|this point)|going forward|future|henceforth|until further"
    r"|remember|forget|in mind|every time|each time|whenever|any ?time|when i|any ?more|again|stop|quit"
    r"|no more|no longer|no need|call me|address me|refer to me|until i|unless i|if i|every|each"
    r"|aufhören|weglassen|arrêter|dejar|olvida|for (?:all|any)|under no|at no time|ignore|drop|rule"
    r"|alle|jede[nrs]?|mehr|immer|stets|nie(?:mals)?|ab (?:jetzt|sofort|heute)|von nun an|zukunft"
    r"|künftig|zukünftig|jedes ?mal|wann immer|merke?|daran|vergiss|nicht mehr|hör"
    r"|toujours|jamais|désormais|dorénavant|à partir de|à l'avenir|oublie|souviens|rappelle|chaque fois|plus"
    r"|arrête"
    r"|siempre|nunca|jamás|en adelante|a partir de ahora|desde ahora|en el futuro|recuerda|olvides|cada vez"
    r"|siempre que|deja|ya no|más|vuelvas?)\b"
    r"|[总總始]是|始终|始終|一律|务必|務必|永远|永遠|[从從]不|[绝絕决決]不|千万|不要|别再|別再|以后|以後|今后|今後|往后|[从從]现在|從現在"
    r"|[从從]今|记住|記住|记得|記得|每次|每当|每當|一定要|禁止|不[许許]|不用|不需要|不必|[无無]需再"
    r"|[绝絕][对對]|(?:如果|当|當|只要|要是)我|任何"
    r"|必ず|いつも|常に|毎回|これから|以後|二度と|絶対|決して|覚えて|忘れ|たびに|もう"
    r"|항상|언제나|늘 |절대|앞으로|이제부터|지금부터|매번|때마다|기억|잊지|다시는|더 이상|반드시|이제",
    """
    always never ever from going future henceforth further remember forget mind time whenever anytime when
    more anymore again stop quit longer need call address refer until unless if all every each any under
    ignore drop rule
    alle mehr jede jeden jeder
    immer stets nie niemals ab nun zukunft jedes jedesmal wann merk merke daran vergiss nicht
    aufhören weglassen arrêter dejar olvida
    toujours jamais partir avenir oublie souviens rappelle fois plus
    siempre nunca adelante ahora futuro recuerda olvides cada deja ya vuelvas vuelva
    """,
)
# What people say to each other, and nobody to an assistant.
_ENCOURAGES = Phrases(
    r"\b(?:never|don't ever|do not ever|don't|do not)\s+(?:say never|give up|quit|look back|doubt yourself"
    r"|underestimate|lose (?:hope|faith|heart|sight)|stop (?:believing|dreaming|learning|smiling|trying))\b"
    r"|\b(?:remember|don't forget|do not forget|never forget)\s+"
    r"(?:to\s+(?:stay (?:positive|strong|true|safe|calm)|take care|have fun|enjoy|breathe|relax|rest|smile"
    r"|laugh|believe|love|look after|be (?:kind|proud)|treat yourself|eat|sleep|drink"
    r"|be (?:patient|gentle|good|easy) (?:with|to|on) yourself|prepare (?:emotionally|mentally|yourself))"
    r"|(?:that )?(?:you're|you are|i'm|i am|we're|we are|life|everyone|nobody)\b(?! to\b))",
    "never ever don do remember forget",
)
# "Always do that": what is said by the sentence before.
_POINTS = regex(
    r"\b(?:do|does|doing|use|like) (?:that|this|so|it|the same|these|those|them)\b"
    r"|\b(?:that|this|these|those)(?=\s*(?:[.,;!]|$))"
)
# A sentence that limits the one before it.
_EXCEPTION = regex(
    r"(?:unless|except|only if|but only|but not|otherwise|es sei denn|außer|nur wenn|sauf|excepto|salvo"
    r"|a menos)\b"
    r"|除非|除了|ただし|단,|다만",
)
# What ends an instruction, without what it is about.
CANCELS = regex(
    r"\b(?:you (?:can|may|should|could) (?:now )?(?:stop|drop)|please stop|stop|no need to"
    r"|you (?:don't|do not|no longer) (?:have|need) to|no longer|any ?more|no more"
    r"|(?:forget|ignore|drop) (?:about )?"
    r"(?:what i said (?:about|on)|the rule|that rule|my (?:earlier )?instruction|the instruction)"
    r"|nicht (?:mehr|länger)|keine?[nrms]?(?= [^.]{1,80} mehr\b)|aufhören|weglassen"
    r"|vergiss (?:die|meine) (?:regel|anweisung|vorgabe)"
    r"|plus besoin|(?:peux|pouvez) arrêter|arrête[rz]?|(?:ne |n')(?=[\w'-]{2,30} plus\b)"
    r"|oublie[rz]? (?:la règle|la consigne)"
    r"|ya no|deja de|deje de|puedes? dejar de|no(?= \w{2,30} más\b)|olvida la (?:regla|instrucción))\b"
    r"|不用再|[无無]需再|不必再|不用|不需要|不必|[别別]再|不要再"
    r"|もう|今後は?不要|(?:なくて|なくても)(?:いい|よい|良い|大丈夫|結構)"
    r"|더 이상|지 ?않아도|안(?= \S{1,10}도 (?:돼|되|괜찮))|필요 ?없",
)
# Said to the assistant of what it does: else it is of the speaker, or of things.
_ENDS = Phrases(
    r"^[^.?]{0,80}\b(?:(?:du|sie) (?:musst|müssen|brauchst|brauchen|kannst|können|darfst|sollst|sollen)"
    r"|(?:musst|brauchst|sollst|kannst) du)\b[^.?]{0,200}\b(?:nicht (?:mehr|länger)|aufhören|weglassen)\b"
    r"|^[^.?]{0,80}\bkeine?[nrms]? [^.?]{1,80} mehr (?:angeben|nennen|schreiben|nötig|verwenden|benutzen)\b"
    r"|\bvergiss (?:die|meine) (?:regel|anweisung|vorgabe)\b"
    r"|\bplus besoin (?:de|d'|que)|\b(?:tu peux|vous pouvez) arrêter (?:de|d')"
    r"|\btu n'as plus (?:besoin de|à)\b|\boublie[rz]? (?:la règle|la consigne)\b"
    r"|\b(?:puedes?|podéis) dejar de\b|\bolvida la (?:regla|instrucción)\b|\bya no (?:necesitas|hace falta)\b"
    r"|\byou can (?:now )?drop (?:the|those|all)\b|^no more [a-z][^.?]{1,80}please\b",
    "nicht aufhören weglassen mehr länger vergiss plus arrêter oublie oublier oubliez"
    " dejar olvida ya drop more",
)


# English

_VERBS = _words(
    """
    accept act add address adjust analyse analyze answer apologise apologize append apply
    approve ask assume attach avoid back
    base be begin book bring build bump buy calculate call cancel capitalise capitalize change check choose
    cite clean clear close code collect comment commit compare compile complete confirm consider contact
    continue convert copy correct count cover create debug default define delete deploy describe design
    determine develop disable discuss display document do double download draft draw edit email enable end
    ensure escape estimate evaluate examine execute expand explain explore export extend extract fetch
    figure file fill filter find finish fix focus follow format generate get give go greet group guide
    handle help hide highlight identify implement import improve include indent inform insert inspect
    install interpret introduce investigate keep label leave let limit link list load log look mail maintain
    make mark mention merge message migrate modify move name normalise normalize note notify omit open order
    organise organize output paste pause pay perform pick place plan play prefer prefix prepare present
    preserve print prioritise prioritize produce propose provide publish pull push put quote raise read
    rebase recommend record redact reduce refactor refer reformat refuse reject release rely remember remind
    remove rename render repeat rephrase replace reply report reproduce request reschedule reserve resolve
    respect respond restart restrict retry return reuse review revise rewrite round run save say scan
    schedule search select send separate set setup share shorten show sign simplify skip solve sort speak
    specify spell split squash stage start state stay stick stop store structure submit suggest summarise
    summarize switch tag take talk tell test think throw track transfer transform translate treat trim trust
    try turn type undo update upgrade upload use validate verify wait walk warn watch wrap write
    """
)
_NOT_A_VERB = _words(
    """
    a an the my your his her its our their this that these those it he she they we i you in on at with by
    for from of to as too very so quite pretty really about around under over happy glad busy late early
    tired sad fun nice good great bad better best worse worst been had was were did done gone seen heard
    knew known thought said told came went got gotten ate eaten took taken made gave given felt found left saw
    became began bought brought built caught chose drew drove fell flew forgot grew held kept led paid ran
    rode sang sat sent slept sold spent spoke stood taught threw understood woke
    lost won met meant wrote written broke broken wore mind again more less enough one two some any all same
    there here why what who how when where if and or but not no never always ready afraid proud sure
    available welcome wrong right true free fond keen is are am be's has have there's it's i'm i've funny
    hard easy difficult hungry thirsty interesting amazing up out down off just still even once twice before
    after until since because while such than then
    """
)
_LEAD = (
    r"^(?:[\W_]{0,8}(?:and|also|but|so|ok|okay|oh|well|hey|hi|hello|yes|yeah|no|right|great|good|perfect"
    r"|thanks"
    r"|thank you|note|nb|ps|important|reminder|rule|new rule|one (?:more )?(?:thing|rule)|by the way|btw"
    r"|for the record"
    r"|just|kindly|please|pls|plus|then|again|lastly|finally|first|second|third|instead|actually|in general"
    r"|generally|however)\b){0,6}[\W_]{0,8}"
)
_ASKS_YOU = (
    r"(?:you (?:should|must|need to|have to|are to|shall|ought to|will)"
    r"|(?:can|could|will|would) you(?: please| kindly)?"
    r"|i(?:'d| would)? (?:want|like|need|expect|prefer|ask|love)(?: for)? you to|please|kindly"
    r"|(?:make|be) sure (?:that )?(?:you|to))"
)
# A noun that could be a verb goes on differently: "Change of plan", "Test 4: …".
_FIRST_WORD = regex(
    _LEAD + r"(?P<word>[a-z']+)\b(?!\s*:|\s+(?:of|is|are|was|were|has|had|care|soon|completed?|done|finished"
    r"|ready|failed|passed|\w+:)(?!\w))"
)
_ALWAYS_FIRST = regex(_LEAD + r"(?:do )?(?:always|never)\b[,\s]+(?:ever\s+)?(?P<word>[a-z']+)")
_ALWAYS_ASKED = regex(rf"\b{_ASKS_YOU}\s+(?:always|never|not ever)\s+(?P<word>[a-z']+)")
# After a condition: "when I ask about errors, always include …".
_ALWAYS_LATER = regex(
    _LEAD
    + r"(?:when|whenever|if|every|each|for|in|before|after|unless|as|on|once|with|while|until|any ?time|at)\b"
    r"[^.]{2,300}?[,;:–—-]\s*(?:then |please )?(?:do )?(?:always|never|don't ever"
    r"|do not ever)\s+(?P<word>[a-z']+)",
)
# "Keep it short, and never apologise", "Use tabs always": not "Order 12 never came".
_ALWAYS_AFTER = regex(
    r"(?:[,;]|\band|\bbut|\bor)\s+(?:always|never)\s"
    r"|\b(?:always|never)\s*(?:[.,;!]|$|(?:when|if|in|with|for|before|after|unless|as|on|at|to)\b)",
)
_LASTING = Phrases(
    r"\b(?:from now on|from here on(?: out)?|from this point (?:on|forward)|going forward|henceforth"
    r"|in (?:the )?future|until further notice|every time|each time|whenever|any ?time|unless i|until i"
    r"|when i (?:ask|say|mention|tell|send|paste|give|report|write|use|type|request|talk|want|need|share)"
    r"|in (?:all|every|each|any) (?:answer|reply|response|message|commit|file)\w*"
    r"|(?:begin|start|end|sign) (?:all|every|each) (?:\w+ )?(?:answer|repl|response|message|e?-?mail|report"
    r"|summar|letter)\w*|a rule to"
    r"|at no time|under no circumstances)\b",
    """
    from going henceforth future further time whenever anytime unless until when all every each any rule
    circumstances
    """,
)
_FROM_NOW = regex(
    r"\b(?:from now on|from here on(?: out)?|from this point (?:on|forward)|going forward|henceforth"
    r"|until further notice)\b[,:\s]*(?P<rest>.*)",
    re.S,
)
_OWN_PLAN = regex(
    r"(?:i(?!(?:'d| would)? (?:want|like|need|expect|prefer|only want|don't want|do not want))\b"
    r"|i'(?!d like)\w+"
    r"|he|she|they|it|it's|my|his|her|their|things|life|everything)\b",
)
_REMEMBER = Phrases(
    _LEAD + r"(?:(?:you )?(?:need|have) to |i(?:'d| would)? (?:want|like|need) you to |can you |could you )?"
    r"(?:(?:remember|don't forget|do not forget|never forget)(?:\s+(?:to\b(?! when)|that\b(?! (?:time"
    r"|day|one|night|trip|song|movie|guy|girl)\b))|[:,]\s)"
    r"|(?:keep|bear) in mind\b)",
    "remember forget mind",
)
_NOT_AGAIN = Phrases(
    _LEAD + r"(?:(?:don't|do not|dont)(?: you)? ever\b|under no circumstances\b|at no time\b|no more [a-z]"
    r"|(?:don't|do not|dont|you (?:can|may|should) stop|stop|quit|no need to|you (?:don't|do not|no longer)"
    r" (?:have|need) to|you no longer (?:have|need) to)\b[^.]{2,300}\b(?:again|any ?more|ever|from now on)\b"
    r"|(?:you (?:can|may|should|could) (?:now )?)?(?:stop|quit|avoid) (?!working|running|being|getting"
    r"|having)[a-z]+ing\b|you no longer (?:have|need) to\b"
    r"|no [a-z][^.?]{2,200}, ever[.!]*$|[a-z][^.?]{2,200} please, always[.!]*$"
    r"|(?:forget|ignore|drop) (?:what i said (?:about|on)|the rule|that rule|my (?:earlier )?instruction))",
    "ever circumstances time more again any anymore from stop quit avoid longer always forget ignore drop",
)
_CALL_ME = Phrases(
    _LEAD + r"(?:(?:you )?(?:can |should |must )?)(?:call|address) me (?!back|when|if|at|later|on"
    r"|tomorrow|crazy)|\brefer to me as\b",
    "call address refer",
)
_CONDITION_FIRST = Phrases(
    _LEAD + r"(?:whenever|every time|each time|any ?time"
    r"|(?:when|if) i (?:ask|say|mention|tell|send|paste|give|report|write|use|type|request|talk|share)"
    r"|until i (?:say|tell|ask)|for (?:all|every|each|any)"
    r"|(?:every|each) (?:\w{1,6}day|day|morning|evening|night|week|month|quarter|year|release|sprint)"
    r"|in (?:the )?future|as a (?:general )?rule)\b[^.]{0,300}?,\s*(?:then |just |only |first "
    r"|also )?(?P<main>[a-z']+(?: [a-z']+)?)",
    "whenever every each any anytime when if until all future rule",
)
_MAIN = frozenset({"please", "always", "never", "don't", "do", "you", "make", "dont"})
_ASKED = regex(rf"\b{_ASKS_YOU}\b")
_LEAD_ALONE = regex(_LEAD)
_MAY_ASK = regex(_LEAD + r"(?:can|could|will|would) you\b")


_ALWAYS = frozenset({"always", "never", "ever"})


def _in_english(said: str, words: frozenset[str] | None) -> bool:
    asks = said.rstrip(" \"')").endswith("?")
    if asks and not _MAY_ASK.match(said):
        return False
    always = words is None or not _ALWAYS.isdisjoint(words)
    found = always and (_ALWAYS_FIRST.match(said) or _ALWAYS_ASKED.search(said) or _ALWAYS_LATER.match(said))
    if found and _is_imperative(found["word"]):
        return True
    lasting = _LASTING.may_be_in(words)
    first = None if asks or not (lasting or always) else _FIRST_WORD.match(said)
    verb_first = first is not None and first["word"] in _VERBS
    if verb_first and (_LASTING.search(said, words) or (always and _ALWAYS_AFTER.search(said))):
        return True
    if any(phrases.search(said, words) for phrases in (_REMEMBER, _NOT_AGAIN, _CALL_ME)):
        return not asks or _MAY_ASK.match(said) is not None
    if lasting and (asked := _ASKED.search(said)) and _LASTING.pattern.search(said, asked.end()):
        return not _OWN_PLAN.match(said) or said[asked.start()] == "i"
    if now := lasting and _FROM_NOW.search(said):
        rest = now["rest"]
        before = _LEAD_ALONE.sub("", said[: now.start()], count=1)
        return not _OWN_PLAN.match(before or rest) and bool(rest.strip(" .!") or before)
    if condition := "," in said and _CONDITION_FIRST.search(said, words):
        main = condition["main"].split()
        return main[0] in _MAIN or main[0] in _VERBS or " ".join(main) in ("i want", "i'd like", "i expect")
    return False


def _is_imperative(word: str) -> bool:
    """Return whether the word after "always" or "never" can be a verb in the imperative."""
    if word in _VERBS:
        return True
    return word not in _NOT_A_VERB and not (word.endswith(("ed", "ing", "ly")) and len(word) > 4)


# German, French, Spanish: a verb in the imperative comes first, so that a subject cannot.

_GERMAN_VERBS = (
    r"(?:achte|antworte|arbeite|beachte|beginne?|begründe|behalte?|benutze?|berechne|bestätige|bleibe?"
    r"|denke?|duze?"
    r"|erkläre?|ersetze?|erwähne|fasse|formatiere?|formuliere?|frage?|führe?|füge?|gib|halte?|hänge?"
    r"|ignoriere?|informiere?"
    r"|kommentiere?|kürze?|lass|lasse|lies|liste|lösche?|mache?|markiere?|nenne?|nimm|nutze?|ordne"
    r"|prüfe?|rechne|rede"
    r"|rufe?|runde|sage?|schicke?|schreibe?|sei|sende|setze?|sieze?|speichere?|sprich|starte|stelle?"
    r"|teste|trenne|übersetze?"
    r"|überprüfe?|vergiss|vermeide?|verwende|verzichte|wiederhole?|zeige?|zitiere?|ändere?|[a-zäöüß]+en sie)"
)
# Beside a word that makes them last. At the beginning of a request, these could be the first person's too.
_GERMAN_VERBS_LASTING = (
    rf"(?:{_GERMAN_VERBS}|entschuldige|biete|warne?|hole?|öffne|schließe?|buche?|bestelle?|erinnere?|melde"
    r"|korrigiere?|lege?|sortiere?|wähle?|suche?|warte|erstelle?|entferne?|lade|aktualisiere?|leite|teile?"
    r"|verrate?|veröffentliche?|signiere?|empfiehl|sieh|triff|trage?)"
)
_GERMAN_LASTING = (
    r"(?:immer|stets|nie(?:mals)?|nie wieder|ab (?:jetzt|sofort|heute)|von nun an|in (?:der )?zukunft"
    r"|künftig|zukünftig"
    r"|jedes ?mal|wann immer|nicht mehr)"
)
_GERMAN_LEAD = (
    r"^[\W_]{0,8}(?:(?:bitte|und|also|ok|okay|ja|nein|aber|außerdem|wichtig|hinweis|danke|übrigens"
    r"|noch etwas)\b[\W_]{0,8}){0,4}"
)
_GERMAN = Phrases(
    rf"{_GERMAN_LEAD}(?:{_GERMAN_VERBS_LASTING}\b[^.]{{0,300}}\b{_GERMAN_LASTING}\b"
    rf"|{_GERMAN_LASTING}\b[\s,:]*(?:bitte |nur |noch )?(?:{_GERMAN_VERBS_LASTING}\b"
    # Not "künftig fährt der Bus".
    rf"|(?![\s,:]*\w+ (?:ich|du|wir|er|es|man)\b"
    rf"|[\s,:]*(?!mit )\w+t (?:de[rmn]|die|das|ein\w*)\b)"
    rf"[^.,]{{2,200}}[a-zäöüß]{{2,}}(?:en|ern|eln)(?:[,.!]|$))"
    rf"|(?:ab (?:jetzt|sofort|heute)|von nun an|in (?:der )?zukunft|(?:zu)?künftig)\b[\s,:]*"
    rf"[a-zäöüß]{{2,40}}st du\b"
    rf"|(?:merke? dir|denke? (?:immer )?(?:bitte )?daran|vergiss nicht|hör(?:e)? (?:bitte )?auf)\b"
    rf"|(?:wenn|falls|sobald|bevor|ehe|nachdem|solange) [^.]{{2,300}}?, (?:dann )?(?:bitte )?"
    rf"(?:(?:immer|nie(?:mals)?)\b(?! (?:ich|du|er|es|sie|wir|man)\b)"
    rf"|{_GERMAN_VERBS_LASTING}\b(?! ich\b)[^.]{{0,200}}\b{_GERMAN_LASTING})\b"
    rf"|(?:beginne?|beende|unterschreibe?) (?:jede[nrs]?|alle) [^.]{{0,30}}"
    rf"(?:antwort|nachricht|mail|bericht|brief|zusammenfassung)"
    rf"|keine? [^.]{{2,80}} mehr,? bitte\b|bitte keine? [^.]{{2,80}} mehr\b"
    rf"|nenne? mich\b|(?:wann immer|jedes ?mal,? wenn"
    rf"|immer,? wenn) [^.]{{2,300}}?, (?:dann )?(?:bitte )?{_GERMAN_VERBS_LASTING}\b(?! ich\b))"
    rf"|\b(?:du sollst|du sollst|du musst|du darfst|du solltest|sie sollen|sie müssen"
    rf"|kannst du (?:bitte )?|könntest du (?:bitte )?"
    rf"|(?:dass|damit) du|(?:dass|damit) sie)\b[^.]{{0,200}}\b{_GERMAN_LASTING}\b"
    rf"|\b(?:ich (?:möchte|will)\b[^.]{{0,80}}\b{_GERMAN_LASTING}|{_GERMAN_LASTING} (?:möchte|will) ich)\b"
    rf"[^.]{{0,80}}\bdass (?:du|sie)\b",
    """
    alle jede jeden jeder mehr
    immer stets nie niemals ab nun zukunft jedes jedesmal wann nicht merk merke daran nenn nenne
    """,
)
_FRENCH_VERBS = (
    r"(?:réponds|répondez|utilise[rz]?|écris|écrivez|inclus|incluez|indique[rz]?|ajoute[rz]?|donne[rz]?"
    r"|mets|mettez|montre[rz]?"
    r"|explique[rz]?|demande[rz]?|vérifie[rz]?|garde[rz]?|évite[rz]?|parle[rz]?|dis|dites|appelle[rz]?"
    r"|fais|faites|cite[rz]?"
    r"|mentionne[rz]?|traduis|traduisez|commence[rz]?|termine[rz]?|lance[rz]?|exécute[rz]?|teste[rz]?"
    r"|pense[rz]?|envoie|envoyez"
    r"|sois|soyez|affiche[rz]?|formate[rz]?|résume[rz]?|supprime[rz]?|rappelle|préviens|prévenez|tutoie"
    r"|vouvoie|préfixe[rz]?)"
)
# "Excuse-toi": beside a word that makes it last.
_FRENCH_VERBS_LASTING = rf"(?:{_FRENCH_VERBS}|[a-zéèêçî]{{3,30}}-(?:moi|toi|nous|les?|la|lui|leur)(?![\w-]))"
_FRENCH_LASTING = (
    r"(?:toujours|jamais|désormais|dorénavant|à partir de (?:maintenant|là)|à l'avenir"
    r"|(?:à )?chaque fois|systématiquement)"
)
_FRENCH_LEAD = (
    r"^[\W_]{0,8}(?:(?:et|mais|ok|oui|non|donc|merci|bon|s'il (?:te|vous) plaît|stp|svp|important"
    r"|note|aussi|au fait)\b[\W_]{0,8}){0,4}"
)
_FRENCH = Phrases(
    # "Envoie-le au bureau, je ne suis jamais là": of the speaker.
    rf"{_FRENCH_LEAD}(?:{_FRENCH_VERBS_LASTING}\b(?![^.]*\bj(?:e|')[^.]*\b(?:jamais|toujours)\b)"
    rf"[^.]{{0,300}}\b{_FRENCH_LASTING}\b"
    rf"|{_FRENCH_LASTING}\b(?: qu(?:e |')[^.]{{2,200}}?)?[\s,:]*(?:{_FRENCH_VERBS_LASTING}\b|ne \w+"
    rf"|n'\w+|merci de\b"
    rf"|tu \w{{2,}}|vous \w{{2,}}|je (?:veux|voudrais|préfère|souhaite) (?:que|les?|la|des|un|une|tou)\b)"
    rf"|plus (?:de |d')[^.]{{2,80}}(?:s'il (?:te|vous) plaît|stp|svp)\b"
    rf"|(?:ne |n')[\w' -]{{2,40}}? (?:jamais|plus)\b"
    rf"|(?:n'oublie[sz]? pas|souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|arrête[rz]? d)"
    rf"|(?:quand|lorsque|lorsqu'\w+|si|dès que|tant que|(?:avant|après|en cas) (?:de|d'\w+)) [^.]{{2,300}}?, "
    rf"(?:{_FRENCH_VERBS_LASTING}\b[^.]{{0,200}}\b{_FRENCH_LASTING}"
    rf"|n[e'][^.]{{2,40}}\b(?:jamais|plus))\b"
    rf"|appelle[rz]?-moi\b)"
    rf"|\b(?:tu dois|vous devez|il (?:ne )?faut|tu devrais|que tu|que vous|peux-tu|pourrais-tu"
    rf"|merci de)\b[^.]{{0,200}}\b{_FRENCH_LASTING}\b",
    """
    toujours jamais partir avenir fois plus oublie oublies oubliez souviens souvenez rappelle rappelez
    appelle appeller appellez
    """,
)
_SPANISH_VERBS = (
    r"(?:responde|contesta|usa|utiliza|escribe|incluye|añade|agrega|pon|muestra|explica|pregunta"
    r"|verifica|comprueba|mantén"
    r"|evita|habla|dime|di|llámame|haz|cita|menciona|traduce|empieza|termina|ejecuta|prueba|envía|resume"
    r"|indica|revisa|avisa"
    r"|avísame|responda|conteste|use|utilice|escriba|incluya|añada|agregue|ponga|muestre|explique"
    r"|pregunte|verifique|compruebe"
    r"|mantenga|evite|hable|diga|haga|cite|mencione|traduzca|empiece|termine|ejecute|pruebe|envíe|resuma"
    r"|indique|revise|avise)"
)
# "Pregúntame", "hazlo": as above.
_SPANISH_VERBS_LASTING = (
    rf"(?:{_SPANISH_VERBS}|discúlpate|ofrece|entrega|ordena|\w{{1,20}}[áéíóú]\w{{1,6}}(?:me|nos|melo|mela)"
    r"|(?:pon|haz|di|ten|da)(?:me|nos|le|les|te)?(?:l[oa]s?)?)"
)
_SPANISH_LASTING = (
    r"(?:siempre|nunca|jamás|de ahora en adelante|en adelante|a partir de ahora|desde ahora|en el futuro"
    r"|cada vez que|nunca más)"
)
_SPANISH_LEAD = (
    r"^[\W_]{0,8}(?:(?:y|pero|ok|sí|si|no te olvides|bueno|gracias|por favor|importante"
    r"|nota|además|también)\b[\W_]{0,8}){0,4}"
)
_SPANISH = Phrases(
    rf"{_SPANISH_LEAD}(?:{_SPANISH_VERBS_LASTING}\b[^.]{{0,300}}\b{_SPANISH_LASTING}\b"
    rf"|{_SPANISH_LASTING}\b(?: [^.,]{{2,200}},)?[\s,:]*(?:{_SPANISH_VERBS_LASTING}\b|no \w+"
    rf"|(?:quiero|prefiero|necesito|quisiera) (?:que|los?|las?|el|un|una|tod[oa]s?)\b)"
    rf"|(?:nunca|jamás) \w+[ae]s\b|no \w+[ae]s (?:nunca|jamás|más)\b|no vuelvas a\b"
    rf"|(?:recuerda(?:d)?|recuerde|no (?:te )?olvides?|no olvide|deja de|deje de|llámame)\b(?! cuando)"
    rf"|(?:cuando|si|antes de|después de"
    rf"|mientras) [^.]{{2,300}}?, (?:{_SPANISH_LASTING} {_SPANISH_VERBS_LASTING}"
    rf"|{_SPANISH_VERBS_LASTING}\b[^.]{{0,200}}\b{_SPANISH_LASTING})\b"
    rf"|ya no (?:hace falta|es necesario|tienes que|hay que)\b)"
    rf"|\b(?:debes|tienes que|deberías|hay que|quiero que|puedes"
    rf"|podrías)\b[^.]{{0,200}}\b{_SPANISH_LASTING}\b",
    """
    siempre nunca adelante ahora futuro cada vuelvas recuerda recuerdad recuerde olvide olvides deja deje ya
    """,
)

# Chinese, Japanese, Korean

_CHINESE = regex(
    r"^(?:[\W_]{0,4}(?:好的?|嗯|对了|對了|另外|还有|還有|注意|提醒)[\W_]{0,4}){0,3}"
    r"(?:请|請|麻烦|麻煩)?(?:你|您)?(?:要|应该|應該|必须|必須|得|需要)?(?:以后|以後|今后|今後|往后|[从從](?:现在|現在)(?:起|开始|開始)"
    r"|[从從]今(?:以)?[后後]|今天起"
    r"|记住|記住|记得|記得|每次|每当|每當|务必|務必|千万|千萬|永远|永遠|总是|總是|始终|始終|一律|[绝絕决決]不|不要再|别再|別再|不要|别|別|禁止|不[许許]|一定要|不用再"
    r"|[无無]需再|不必再|[当當]我|如果我|要是我|只要我)"
)
_CHINESE_LASTING = regex(
    r"总是|總是|始终|始終|一律|务必|務必|永远|永遠|[绝絕决決]不|千万|千萬|不要再|别再|別再|以后|以後|今后|今後|往后|[从從](?:现在|現在)|[从從]今|今天起|记住|記住|记得"
    r"|[绝絕][对對]不|(?:不要|别|別|不得|不可以?|不能).{1,60}任何|任何.{1,30}[前后後时時候]"
    r"|^(?:如果|[当當]|要是|只要)我再?(?:[说說问問写寫发發提叫让讓]|要求).{1,60}[，,](?:就|[请請]|都|先|必)"
    r"|記得|每次|每当|每當|一定要"
    r"|禁止|不[许許]|都要|不用再|[无無]需再|不必再"
)
# "每次十几秒": how something is, not what to do.
_CHINESE_TELLS = regex(
    r"[请請你您别別]|不[要准许許用必]|要(?![么是求])|得[^了到很]|必[须須]|[务務]必|千万|千萬|一律|禁止|记[住得]|記[住得]|[无無]需|[给給告]|先"
    r"|[叫用写寫答回加带帶附列放改]|(?<!再)[说說]"
)
_CHINESE_OWN = regex(
    r"^(?:我|他|她|它|咱)(?!.{1,60}[，,](?:[请請]|[务務]必|一定要|[你您]))"
    r"|^(?:以后|以後|今后|今後|往后|[从從][^，,]{1,4}(?:起|开始|開始|后|後))[，, ]?(?:我|他|她|它|咱)"
    r"(?!.*(?:请|請|务必"
    r"|務必|你|您|不要|别|別|都要|必须|必須))|我来"
)


# After what it is about, or a condition.
_CHINESE_LATER = regex(
    r"^[^，,]{0,12}(?:请|請|你要|你必须|您|[绝絕][对對]不[要能得可许許准])"
    r"|^[^，,]{1,60}(?:前|后|後|时|時|候)[，,](?:[请請]|[务務]必|一定要|都要|[你您]|先)"
)


# "不用谢" ends nothing.
_CHINESE_ENDS = regex(
    r"^[你您]?(?:以[后後]|今[后後]|[现現]在)?可?以?不(?:用|需要|必)再?(?![谢謝担擔急客])[^，,。]{2,40}了\W*$"
)


def _in_chinese(said: str) -> bool:
    if re.search(r"[\u3040-\u30ff\uac00-\ud7af]", said) or re.search(r"[吗嗎呢?？]\W*$", said):
        return False
    if _CHINESE_ENDS.match(said):
        return True
    asked = _CHINESE.match(said) and _CHINESE_TELLS.search(said)
    asked = asked or _CHINESE_LATER.match(said)
    return bool(asked and _CHINESE_LASTING.search(said) and not _CHINESE_OWN.search(said))


_JAPANESE_LASTING = regex(
    r"必ず|いつも|常に|毎回|今後|これから|以後|二度と|絶対|決して|覚えて|忘れないで|忘れずに|たびに|もう"
)
_JAPANESE_ASKS = regex(
    r"(?:ください|下さい|くれ|お願い(?:します|いたします)?|[てで](?:ね|よ)?|ほしい(?:です)?|欲しい(?:です)?|こと|しろ|せよ|ように|禁止|するな"
    # "もう付けなくていいです"
    r"|なくても?(?:いい|よい|良い|大丈夫|結構)(?:です)?よ?|不要(?:です)?|いらない(?:です)?|必要(?:ない|ありません)(?:です)?)[。！!]*$"
)


def _in_japanese(said: str) -> bool:
    if not re.search(r"[\u3040-\u30ff]", said) or re.match(r"(?:私|僕|俺|彼|彼女)[はが]", said):
        return False
    return bool(_JAPANESE_LASTING.search(said) and _JAPANESE_ASKS.search(said.strip()))


_KOREAN_LASTING = regex(
    r"항상|언제나|늘 |절대|앞으로|이제부터|지금부터|매번|때마다|기억|잊지|다시는|더 이상|반드시"
)
_KOREAN_ASKS = regex(
    r"(?:세요|십시오|줘(?:요)?|주세요|해라|하라|[지] ?마(?:세요|라)?|말아(?:줘|요|라)?"
    r"|할 것|바랍니다|부탁(?:해|합니다|드립니다)?"
    r"|주셨으면 (?:합니다|해요|좋겠어요|좋겠습니다)|해|[써둬](?:요)?)[.!]*$"
)


_KOREAN_ENDS = regex(
    r"(?:이제|더 이상|앞으로)는? .{0,80}(?:(?:안 \S{1,10}|지 ?않아)도 (?:돼|되|괜찮)|필요 ?없)\S{0,6}[.!]*$"
)


def _in_korean(said: str) -> bool:
    if not re.search(r"[\uac00-\ud7af]", said) or re.match(
        r"(?:나는|난|저는|전|(?:내가|제가)(?!.*(?:면|때마다|때는?) )|그는|그녀는) ", said
    ):
        return False
    if _KOREAN_ENDS.search(said):
        return True
    return bool(_KOREAN_LASTING.search(said) and _KOREAN_ASKS.search(said.strip()))


# -- Requests

# How people ask for something to be done, by language. A verb in the imperative does so too.
_TASK = Phrases(
    r"\b(?:(?:can|could|would|will) (?:you|we|i (?:get|have|change|cancel|book|also))"
    r"|please|your (?:task|job|goal) is|i(?:'d| would)? (?:want|like|need) you to"
    r"|^(?:and |also |just )?need(?: some)? help"
    r"|kannst du|könntest du|können sie|könnten sie|bitte|hilf mir"
    r"|peux-tu|pouvez-vous|pourrais-tu|pourriez-vous|aide[rz]?-moi|s'il (?:te|vous) plaît|merci de"
    r"|puedes|podrías|puede usted|podría|ayúdame|por favor)\b"
    # "我请你们吃饭", "申请": nobody is asked.
    r"|(?<![我他她咱申邀聘宴要])[请請](?!假|客|教|求|負|[你大他她][们們家]?[吃喝看])|帮我|幫我|^帮忙|[你您][^。，]{0,6}帮忙|能不能|可不可以|麻烦|麻煩|给我|給我"
    r"|ください|下さい|お願い(?!しました|した)|手伝って|くれ(?:る|ます|ない|ません)か?[?？]|くれますか|教えて"
    r"|주세요|줘|부탁|도와",
    """
    can could would will please task job goal want like need help kannst bitte hilf peux pouvez pourrais
    pourriez aide aider aidez merci puedes puede favor
    """,
)
# A wish is a request if the assistant goes to work on it: people tell each other what they want as well.
_WISH = Phrases(
    r"\b(?:(?:i|we)(?:'d| would) (?:like|love|need|prefer)"
    r"|(?<!\bif )(?<!\bwhen )(?<!\bonce )(?:i|we) (?:also |really |just |still |now )?(?:want|need|wish)"
    r" (?!that\b|i\b)\w+"
    r"|(?:i'm|i am|we're|we are) (?:looking|trying|hoping|planning|calling|interested|wanting) (?:to|for|in)"
    r"|let's|let us|the (?:task|goal|aim) is|i was hoping"
    r"|ich (?:möchte|brauche|will|hätte gern)|lass uns|wir (?:müssen|sollten)"
    r"|je (?:veux|voudrais)|j'(?:aimerais|ai besoin)|il faut"
    r"|quiero|quisiera|me gustaría|necesito|hay que)\b"
    r"|我想|我要|我需要|ほしい|欲しい|したい(?!と)|싶어|싶습니다|필요(?:해|합니다)",
    """
    like love need prefer want wish looking trying hoping planning calling interested wanting let task goal
    aim brauche will lass sollten veux voudrais aimerais besoin faut quiero quisiera necesito hay
    """,
)
# Phrases in the form of a request that ask for nothing.
_PHRASE = Phrases(
    r"\b(?:can you (?:believe|imagine|guess)|let me (?:know|add|say|tell|explain|mention|clarify|share)"
    r"|let's (?:go for it|hope|face it|see)"
    r"|keep (?:it up|up the|going|at it|in touch|me posted|you posted|being|believing|pushing|doing|chasing"
    r"|making|shining|smiling|(?:that|the|your) (?:\w+ )?(?:going|alive|up|positivity|spirit)\b)"
    r"|take (?:care|it easy|your time)|stay (?:safe|strong|positive|tuned|motivated|in touch)|go for it"
    r"|talk (?:to you )?(?:soon|later)|(?:take a )?look (?:at this|how)|check (?:this |it )?out"
    r"|have (?:fun|a (?:good|great|nice)))\b",
    "believe imagine guess know add say tell explain mention clarify share hope face see keep take stay go"
    " talk look check have",
)
# In German, French or Spanish.
_VERB_ELSEWHERE = regex(
    rf"{_GERMAN_LEAD}{_GERMAN_VERBS}\b|{_FRENCH_LEAD}{_FRENCH_VERBS}\b|{_SPANISH_LEAD}{_SPANISH_VERBS}\b"
)
ASKS_QUESTION = regex(r"[?？][\"'”’)\s]*$|[吗嗎呢][。]?$")


def is_wish(text: str) -> bool:
    """Return whether a sentence says what the user wants."""
    return _WISH.search(*_asked(text)) is not None


@lru_cache(maxsize=64)  # as above
def _asked(text: str) -> tuple[str, frozenset[str] | None]:
    said = _unquoted(text[:_MAX_SENTENCE_LENGTH])
    words = plain_words(said)
    if _PHRASE.may_be_in(words):
        said = _PHRASE.pattern.sub("…", said)
    return said, words


@lru_cache(maxsize=64)
def is_task(text: str) -> bool:
    """Return whether a request asks for more than an answer."""
    said, words = _asked(text)
    if _TASK.search(said, words):
        return True
    first = _FIRST_WORD.match(said)
    verb = first is not None and first["word"] in _VERBS and not ASKS_QUESTION.search(said)
    return verb or (_VERB_ELSEWHERE.match(said) is not None and not ASKS_QUESTION.search(said))


def cut(text: str, tokens: int) -> str:
    """Return the text, or its first clauses or words that fit, with "…" where it was cut."""
    if fits(text, tokens):
        return text
    at = 0
    for part in each_clause(text):
        end = text.find(part, at) + len(part)
        if not fits(text[:end], tokens - 1):
            break
        at = end
    if not at:
        at = max(1, len(text) * (tokens - 1) // max(1, estimate(text)))
        at = text.rfind(" ", 0, at) if " " in text[:at] and not is_cjk(text[:at]) else at
        while at > 1 and not fits(text[:at], tokens - 1):
            at = at * 9 // 10
    return text[:at].rstrip(" ,;:，、；") + "…"
