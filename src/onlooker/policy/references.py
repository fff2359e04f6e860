"""Words that mean something said before them, in English: pronouns, pointers, reasons."""

from __future__ import annotations

import re

from onlooker.policy.text import regex

# A resolved date in parentheses.
RESOLVED = regex(r" ?\((?:19|20)\d\d(?:-(?:\d\d|W\d\d))?(?:-\d\d)?(?:/(?:\d\d-)?\d\d)?\)")
_CANDIDATE = regex(
    r"\b(?i:an?|the|my|our|your|his|her|some|any|every|each|two|three|\d+|several|many|few|new|no|of"
    r"|with|about) \w{2,}"
    # A person with a title is not an "it".
    r"|(?<!^)(?<![.!?] )(?<!\bDr )(?<!\bM[rs] )(?<!\bMrs )(?<!Dr\. )(?<!M[rs]\. )(?<!Mrs\. )"
    r"\b(?!M[rs]s?\b|Dr\b)[A-Z][a-z]+"
    r"|\b(?!(?i:thanks)\b)\w{3,}(?<!i)(?<!s)s\b|[\"“`]|\b(?:someone|everyone|people|anyone)\b"
)
# People and pets, by what they are to someone.
_PEOPLE = (
    r"son|daughter|wife|husband|brother|sister|friend|colleague|boss|aunt|uncle|cousin|niece"
    r"|nephew|mom|mum|dad|mother|father"
    r"|grandma|grandmother|grandpa|grandfather|partner|girlfriend|boyfriend|gf|bf|fiancée?|neighbou?r"
    r"|teacher|coach|mentor"
    r"|roommate|manager|teammate|buddy|doctor|vet|guy|man|woman|girl|boy|kid|baby|someone|somebody"
    r"|person|dog|puppy|pup|cat"
    r"|kitten|pet|grandson|granddaughter|parent|child|student|instructor|trainer|therapist|counsell?or|nurse"
    r"|client|customer|author|artist|singer|player|writer|actor|stranger|veteran|lawyer|driver|guest|host"
)
SOMEBODY = regex(
    # A name, but not that of a place, a month or a title, nor a pronoun that someone writes like one.
    r"(?<!^)(?<![.!?] )(?<!\b[Ii]n )(?<!\bat )(?<!\bfrom )(?<!moved to )(?<!went to )"
    r"(?<![\"“`])\b(?!(?:We|My|Our|He|She|They|It|You|I)\b)"
    r"(?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\b)[A-Z][a-z]+"
    r"|^[A-Z][a-z]+(?='s\b| (?:is|was|has|had|and|said|told|got|came|went)\b)"
    r"|^(?!(?:The|This|That|These|Those|There|He|She|They|It|We|You|My|Our|Your|Just|Also|Finally|Who|What)\b)"
    r"[A-Z][a-z]+(?<!ing)(?<!ly)(?= (?:[a-z]{3,}ed|sold|met|ran|paid|took|made|left|lost|bought|brought|found"
    r"|gave|knew|wrote|won|kept|sent|spent|drove|flew|broke|began|chose|ate|fell|held|led|read|saw|spoke|taught"
    r"|(?:like|love|want|need|think|know|live|work|play|plan|hate)s?|says|goes|does|will|would|can|could)\b)"
    rf"|\b(?:{_PEOPLE}"
    r"|kids|friends|puppies|dogs|cats)\b|[妈爸父母弟哥姐妹妻姉姑叔舅姨]|儿子|女儿|老婆|老公|丈夫|朋友|同事|医生|老师|邻居|孩子"
    r"|さん|くん|ちゃん|友達|同僚|上司|엄마|아빠|친구|동생|누나|형|언니|오빠"
)
_PLACE = regex(
    r"\b(?:in|at|to|from|near|around|visit(?:ed|ing)?) (?:the |an? |my |our |this )?(?!there\b)\w{3,}", re.I
)
_CLAUSE = regex(r"[,;:.!?] |\b(?:and|but|if|when|while)\b", re.I)
# After "this" or "that": a time, or what says nothing of a thing.
_NO_TIME = (
    r"(?!(?:years?|months?|weeks?|weekend|days?|morning|afternoon|evening|night|summer|winter|spring|fall|autumn"
    r"|time|point|moment|stage|rate|age|way|kind|sort|type|is|was|and|or|but|i|we|you)\b)"
)
_VERBS_OF_ONE = (
    r"make|made|buy|bought|get|got|need|want|try|tried|take|took|use|used|find|found|see|saw"
    r"|have|had|book|order"
)
PRONOUN = regex(
    # Each begins with a letter. Looking for that first saves most of the time.
    r"\b(?=[a-z])(?:"
    r"\b(?P<person>he|she|him|his|hers|her|he's|she's|himself|herself)\b"
    r"|\b(?P<thing>it|it's|its|it'll|it'd|they|they're|they've|they'll|them|their|theirs|themselves)\b"
    r"|(?P<place>(?<!over )(?<!right )\bhere\b(?!'|,? (?:is|are|was|were|to|for|comes?|goes|you|we|i)\b)"
    r"|(?<!\bin )(?<!\bout )(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )"
    r"\bthere\b(?!'|,? (?:is|are|was|were|has|have|will|would|might|may|can"
    r"|could|should|must|seems?|used|isn't|aren't|wasn't|weren't)\b))"
    r"|(?P<action>\b(?:do|does|did|doing|done) (?:the same|so|likewise)\b(?! \w+ing\b)"
    # "You can use the card instead."
    r"|\binstead(?=\s*(?:[.,;!?]|$)))"
    r"|(?P<pointer>(?:^|(?<=[.!?] ))(?:(?:that|those)(?:'s|'ll|'d)?\b|here(?:'s| is| are)\b(?![^.!?]*:))"
    r"|\b(?:does|did|do|would|will|could|can|should|has|have) (?:this|that|these|those)\b"
    rf"|(?:^|(?<=[.!?] ))(?:this|these|that) {_NO_TIME}\w+"
    r"(?= (?:is|was|are|were|will|has|have|had|looks?|sounds?|seems?)\b)"
    r"|(?:^|(?<=[.!?] ))(?:this|these)(?= (?:is|was|are|were|will|has"
    r"|have|had|would|can|could|means|makes|made|one|ones|really|also|looks|sounds)\b)"
    r"|\b(?:this|that|these|those)(?=\s*(?:[.,;!?)]|$)|\s(?:is|was|are|were|too|though|as well)\b)"
    r"|\b(?:the|this|that|these|those|another|which|an?|some|any|few) (?:\w+ ){0,3}?ones?\b(?! of)"
    r"|\b(?:any|some|all|most|many|each|none) of (?:the|these|those) \w+(?=[.?!]|$)"
    # "We're brainstorming some to help people."
    r"|\b(?:some|any|several|plenty) (?=to \w)"
    r"|\b(?:this|that|these|those) (?:pic|picture|photo|shot|image|view)s?\b"
    # "I should try making one or buy one."
    rf"|\b(?:{_VERBS_OF_ONE}|[a-z]{{3,}}ing) one(?! (?:of|thing|day|time|more|last|another|\w+ing)\b)"
    rf"|\b(?:this|these) {_NO_TIME}\w+"
    r"|\b(?:for|of|in|into|on|with|to|about|from|at|by|after|during|[a-z]{3,}ing)"
    rf" (?:that|those) {_NO_TIME}\w+"
    r"|^(?:me|same|you|us) (?:too|neither|here"
    r"|as well)\b|^(?:(?:since|as|because|if) )?(?:both|neither|either)\b(?! of)|\byou (?:two|both)\b"
    # "Three of the five have so far.", "Two so far, both for Saturday.": of what, nobody says.
    r"|^(?:one|two|three|four|five|six|\d+|several|most|some|many|few|none|all)"
    r"(?: of the (?:two|three|four|five|six|seven|ten|\d+))?"
    r"(?= (?:so far|have|has|had|are|were|is|was|do|did|can|will)\b)"
    r"|\b(?:few|some|two|three|many) more(?=[.,!?]|$| (?:last|this|next|today|yesterday|to|in|on|at|and)\b)"
    r"|\bthose \w+|\bthat \w+(?=[.?!]|$)"
    r"|\beach(?=\s*(?:[.,;!?]|$))"
    # "So creamy and delicious!": nobody knows what.
    r"|^(?:so|such|very|really|super|pretty|totally) [a-z]+(?:,? (?:and|but|yet) [a-z]+)?(?=\s*(?:[.!]|$))"
    # "I 100% agree.", "Noted.": nobody knows with what.
    r"|^(?:i (?:\S+ )?)?agree(?:d)?(?: completely| totally| with you)?(?=\s*(?:[.!,]|$))"
    # "such requests", but not "such gorgeous views"
    r"|\bsuch (?!\w*(?:ou|s)s\b)\w{3,}s\b"
    r"|^(?:noted|received|understood|got it|will do)(?=\s*(?:[.!]|$))"
    r"|^(?:so|neither|nor) (?:do|did|am|have|can|will|would) i\b|^(?:the )?(?:same|latter|former)\b))",
    re.I,
)
# "It's important to rest": nothing is meant by "it".
_EMPTY_IT = regex(
    r"\bit(?:'s| is| was|'ll be| will be| would be|'d be) (?:\w+ ){1,3}(?:to|that|when|how|if"
    r"|since)\b|\bit(?:'s| is) (?:been|raining|snowing"
    r"|late|early|time)\b|\bit (?:takes|took|rained|snowed|seems|turns|turned|means|felt|feels"
    r"|looks)\b(?= (?:like|that|out|as|\w+ to|me|us|a))"
    r"|\bma[dk]e it (?:to|through|back|work|happen)\b|\bit (?:up|out)\b|\b(?:give it time|take it easy)\b",
    re.I,
)
# "The inserted line is not correct.": which one, the sentence before says. Not where a clause, a name or a
# number behind the noun says it ("the boat that …", "the boat of Carla"), nor of what there is once.
_KNOWN_THING = regex(
    r"(?:but |and |also,? )?the (?!(?:other day|only thing|next day|following)\b)"
    r"(?P<noun>(?:[a-z][a-z'-]* ){1,4}?)(?:for (?:me|us|you|him|her|them) )?"
    r"(?:(?:also|still|really|just|only|now|already|even|always|never|currently) )?"
    r"(?:is|are|was|were|has|have|had|will|would|should|can|could|did|does|do|must|might|may|isn't|aren't"
    r"|wasn't|weren't|hasn't|haven't|didn't|doesn't|don't|won't|can't|couldn't|wouldn't|looks?|seems?|sounds?"
    r"|feels?|felt|came|went|got|made|took|gave|reminds?|needs?|costs?|includes?|shows?|contains?"
    r"|returned|failed|works?)\b",
    re.I,
)
# "The colors blend nicely.": any verb, where nothing says which colors.
_KNOWN_THING_DOES = regex(
    r"[Tt]he (?P<noun>[a-z]{3,} )"
    r"(?!(?:of|for|to|in|on|at|with|from|by|about|that|which|who|where|when|i|we|you)\b)"
    r"(?:[a-z']+ ){0,3}[a-z']+[.!]"
)
# "The total price in economy is $106.": of what, only "of" or "for" says.
_SUM = regex(
    r"the (?:[a-z-]+ ){0,2}?(?P<noun>total|price|cost|fare|fee|amount|difference|balance|refund|charge) "
    r"(?![^.!?]{0,60}\b(?:of|for)\b)[^.!?]{0,60}?\b(?:is|are|was|will|would|comes)\b",
    re.I,
)
_OF_IT = regex(
    r"\b(?:of|for|to|in|on|at|with|from|by|about|between|behind|against|that|which|who|where|when|i|we|you"
    r"|he|she|they|my|our|your)\b"
)
_ONE_OF_A_KIND = regex(
    r"\b(?:weather|sun|moon|sky|sea|ocean|world|earth|internet|government|police|economy|news|future|past|truth"
    r"|thing|kids|children|baby|family|user|assistant|repository|repo|project|codebase|company|team|office|rent"
    r"|landlord|doctor|vet) $"
)
_SAYS_WHICH = regex(r"\w/[\w.]|`[^`]+`|://")
# A reason, or how something ended that is told before.
_REASON = regex(
    r"(?:because|which (?:is|was|means|made|makes)|so (?:i|we|he|she|they|it|my|the)"
    r"|(?:we|they|he|she|it) ended up|(?:i|we|they|he|she|it) then)\b",
    re.I,
)
# "Can I get the recipe for it?": the recipe is not what is meant by "it".
_OF_WHAT_IS_MEANT = regex(r"\b(?:the|an?|any|some) \w+ (?:for|of|to|about) $", re.I)
# "such requests", "of that trip": only requests, or a trip, can be meant.
_POINTED_AT = regex(
    r"\b(?:such|this|that|these|those) (?!(?:ones?|two|three|is|was|are|were)\b)(?P<noun>\w{3,})$", re.I
)
_STEM = 5


def points_back(text: str) -> bool:
    """Whether a sentence speaks of something that only what was said before it names."""
    text = RESOLVED.sub("", text.replace("’", "'"))
    if _REASON.match(text):
        return True
    empty = [found.span() for found in _EMPTY_IT.finditer(text)]
    for found in PRONOUN.finditer(text):
        if any(start <= found.start() < end for start, end in empty):
            continue
        # Only the first pronoun is looked at: what it means, later ones can mean too.
        if pointed := _POINTED_AT.search(found[0]):
            return pointed["noun"][:_STEM].lower() not in text[: found.start()].lower()
        of_it = _OF_WHAT_IS_MEANT.search(text, 0, found.start())
        end = of_it.start() if of_it else found.start()
        naming = _NAMING.get(found.lastgroup or "", _CANDIDATE)
        # "My cousin wants it": neither somebody nor several things, nor what they do, is meant by "it".
        no_thing = _NO_THING if found[0].lower().startswith("it") else None
        return all(no_thing and no_thing.search(named[0]) for named in naming.finditer(text, 0, end))
    return False


_NO_THING = regex(rf"\b(?:{_PEOPLE})$|^\w+s$", re.I)
# What a pronoun of each kind may mean. Of what is done a clause speaks, not a noun.
_NAMING = {"person": SOMEBODY, "place": _PLACE, "action": _CLAUSE}


def known_thing(text: str) -> str:
    """Return the noun of a sentence that begins with a thing its hearers know already, such as "line" of
    "The inserted line is wrong.", or ""."""
    text = text.replace("’", "'")
    if found := _SUM.match(text):
        return found["noun"]
    found = _KNOWN_THING.match(text) or _KNOWN_THING_DOES.match(text)
    if not found or _OF_IT.search(found["noun"]) or _ONE_OF_A_KIND.search(found["noun"]):
        return ""
    if _SAYS_WHICH.search(text, found.end()):
        return ""
    return found["noun"].split()[-1]


_GREETS = regex(
    r"(?:hey|hi|hello|so|and)?\W*"
    r"(?:how(?:'s| is| are|'re|'ve| have| has)? (?:it|you|things|everything|life|ya)"
    r"(?: (?:been|going|doing|holding up))*|what's (?:up|new|good)|what have you been up to)"
    r"(?: (?:with you|lately|today|these days|recently|there))?\W*$",
    re.I,
)


def greets(text: str) -> bool:
    """Whether a text only asks how someone is: "How's it going?"."""
    return _GREETS.match(text.replace("’", "'")) is not None


# "I painted this after a trip": what is beside it. Not "this year".
_SHOWS = regex(
    r"(?:^|[.!?] )here(?:'s| is| are)\b|\b(?:that|those) (?:pic|picture|photo|shot|image)s?\b"
    rf"|\b(?:this|these)(?: {_NO_TIME}\w+|(?=\s*(?:[.!,]|$)))|(?<=[a-z] )(?:this|these) (?:is|was|are|and)\b",
    re.I,
)


def shows(text: str) -> bool:
    """Whether a text points at a picture that is shown with it."""
    return bool(_SHOWS.search(text.replace("’", "'")))
