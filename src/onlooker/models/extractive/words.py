"""What words say: common words by how little they say, stems, the weighted units of a text, the words that
mean something said before them, and the priority of what is said.

The weights must be the same in every pass, and a pass sees only a few hundred words: too few to count
which ones are rare. So the common words are listed here, and a word on no list counts in full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from onlooker.policy.references import greets, points_back
from onlooker.policy.text import CJK, is_cjk, regex
from onlooker.policy.values import find_values

# -- Long and strange texts

MAX_TEXT_LENGTH = 24_000  # characters of one message that are read
UNPRINTABLE = regex("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def keep_ends(text: str, limit: int) -> str:
    """Drop the middle of a text that is too long, between words where there are any."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 3 // 4], text[-limit // 4 :]
    if " " in head[-80:]:
        head = head[: head.rfind(" ")]
    if " " in tail[:80]:
        tail = tail[tail.find(" ") :]
    return f"{head} … {tail.strip()}"


# -- Common words


def word_set(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Grammar: worth nothing by themselves.
FUNCTION = word_set(
    "a an the and or but nor if of to in on at by for with about into from up down out off over under as",
    "than is are was were be been being am do does did doing done have has had having will would shall",
    "should can could may might must not no i me my mine myself you your yours he him his she her hers it",
    "its we us our ours they them their theirs this that these those there here what which who whom whose",
    "when where why how so too very just then also some any all both each few more most other another",
    "such only own same because while though although through during between again once since until",
    "unless s t d ll ve re m don didn isn wasn aren weren doesn hasn haven won wouldn couldn shouldn ain",
    "im ive id ill youre thats theres lets cant dont didnt doesnt isnt wasnt gonna wanna gotta etc via",
    "per either neither whether within without upon among against toward towards around across along",
    "behind beyond near onto else yet ever really like get got getting gets go goes going gone went put",
    "let even still back much many lot lots one thing things way ways well know knows knew think thinks",
    "thought okay ok sure yes yeah yep nope oh hey hi hello wow lol haha thanks thank please sorry bye",
    "hmm um uh ah aw aww ooh now after before every away yourself ourselves themselves himself herself",
    "itself others far whenever wherever whatever however anyway anyhow alright huh woah whoa yum yay ya em",
    "til till th havent hadnt wont wouldnt couldnt shouldnt mustnt arent werent hasnt aint cause cuz there",
    "seem seems seemed become becomes became rather ie eg vs thus hence therefore moreover meanwhile besides",
    "except despite throughout above below beside ahead aside apart anymore somehow somewhere anywhere",
    "everywhere nowhere able let lets known knowing thinking putting puts",
)

# Kind words, and words so general that they fit any conversation.
GENERIC = word_set(
    "awesome amazing cool fun sweet lovely wonderful beautiful incredible fantastic super glad happy",
    "excited exciting inspire inspired inspiring support supportive special important importance",
    "appreciate proud love loved loves enjoy enjoyed feel feeling feelings felt make makes made making",
    "look looks looking looked sound sounds see seeing seen saw come comes coming came take takes taking",
    "took keep keeps keeping kept hope hoping wish need needs want wants wanted try trying tried mean",
    "means help helps helped helping helpful time times day days life lives moment moments people person",
    "someone everyone something anything everything nothing anyone always never lately recently maybe",
    "perhaps pretty totally definitely absolutely truly agree agreed right bit little big huge best",
    "better worth chat talk talking talked say said says saying tell told telling hear heard hearing",
    "share shared sharing catch guess bet wait forward stuff kind kinda sort cute neat stunning gorgeous",
    "perfect true real journey vibe vibes bring brings brought give gives given gave giving experience",
    "experiences positive happiness joy warm warmth encourage encouraging motivate motivated motivation",
    "passion passionate dream dreams difference imagine remember remind reminds believe friend buddy",
    "congrats congratulations luck lucky thankful grateful gratitude pleasure welcome soon later care",
    "caring photo pic picture image great good nice bad interesting powerful meaningful memories memory",
    "reward rewarding challenge challenging challenges growth strength strong resilience courage",
    "creativity creative comfort comforting peace peaceful calm calming relax relaxing relaxed refreshing",
    "blast wonder wonders energy vital key possible impossible easy hard tough difficult rough delicious",
    "yummy tasty sucks crazy wild funny weird idea ideas advice tip tips question questions answer sense",
    "reason reasons problem problems issue matter matters change changes changed part parts place places",
    "point side end start started starting begin began lead work works working worked find finding found",
    "use using used uses learn learning learned understand understanding understood connect connected",
    "connection create creating created build building bond bonding explore exploring express expressing",
    "expression grow growing grew world heart soul mind spirit beauty magic magical step steps focus",
    "focused effort balance able ability chance opportunity opportunities choice sometimes often usually",
    "already actually basically literally honestly probably likely certainly clearly especially",
    "completely simply almost enough quite rather instead together apart alone overall fine whole full",
    "different similar certain various several couple next last past first second final main please note",
    "based following provide provided ensure include including includes allow allows consider available",
    "further additional specific appropriate regarding assist assistance confirm detail details",
    "information happen happened happens happening show shows showed showing turn call ask asked asking",
    "guys folks dude man bro sis girl everybody somebody nobody keen stay staying stayed leave left",
    # Effort, feeling and worth: true of everybody, so they distinguish nobody.
    "impact push pushing progress reminder encouragement determination determined dedication dedicated",
    "commitment committed positivity acceptance accept accepted compassion",
    "empathy kindness hopeful hopefully",
    "optimistic struggle struggles struggled cherish cherished thrill thrilled thrilling fulfill fulfilled",
    "fulfilling satisfy satisfying satisfied satisfaction achieve achieved achieving achievement power path",
    "doubt doubts potential freedom crucial essential setback setbacks stoked pumped hyped psyched blessed",
    "blessing blessings bless empower empowered empowering empowerment",
    "heartwarming uplift uplifting uplifted",
    "priceless relief overwhelmed overwhelming pursue pursuing pursuit spark sparked brighten belief beliefs",
    "discover discovering discovered touched touching deserve deserved",
    "impress impressed impressive enthusiasm",
    "enthusiastic humble humbled humbling captivating captivated admire admiration admirable frustrating",
    "frustrated frustration epic trust embrace embracing belong belonging mood promise promising purpose",
    "strive striving overcome overcoming obstacle obstacles contribute contribution improvement improvements",
    "perspective perspectives awareness imagination inspiration inspirations motivating confidence confident",
    "emotion emotions emotional physical physically mental mentally deep deeply huge massive tremendous",
    "immense wholesome vibrant cozy comfy adorable lively fascinating intriguing remarkable extraordinary",
    "outstanding brilliant superb terrific marvelous splendid delightful charming graceful elegant fabulous",
    "breathtaking mesmerizing majestic serene serenity tranquil tranquility bliss",
    "blissful hectic tricky scary",
    "terrifying nerve nervous wracking bummer bummed devastated devastating heartbreaking hurt hurts worry",
    "worries worried stress stressful pressure escape rush chill hang hanging fulfillment meaning",
    "significance significant impossible guidance guide guided resilient perseverance persistence patience",
    "patient discipline growth grown improve improving boost boosted energized energizing rejuvenating",
    "recharge recharged refreshed vibe lean rely relied counting forget forgotten forgot notice noticed",
    "realize realizing realization reflect reflecting reflection treasure treasured capture captured",
    "celebrate celebrating witness witnessing surround surrounded surrounding connect connecting unity bonds",
    "friendship friendships relationship love loving lovable beloved dear sincerely wishing wishes fingers",
    "crossed update updates posted mention mentioned speak spoke spoken discuss discussed chatting shout",
    "reality true truth honest honestly authentic authenticity genuine genuinely unique role roles model",
    "force forces source shine shining bright brightens glow sunshine rainbow",
    "miracle grand simple small tiny",
    "extra bigger greater easier harder closer younger older stronger happier best worst least ultimate",
    "ultimately eventually finally constantly continuously continue continued continuing consistently",
    "immediately suddenly obviously apparently unfortunately fortunately luckily thankfully seriously",
    "otherwise afterwards alive lose losing loss lost risk risks fear fears brave bravery bold boldly",
    "figure figured figuring handle handling tackle tackling deal dealing manage managing track stick",
    "sticking stuck chase chasing reach reaching fight fighting stand standing matter involve involved",
    "involvement affect affected cause causes result results effect effects level levels aspect aspects",
    "factor factors element elements manner term terms sense type types sort sorts",
)

# The other everyday words: worth something, but less than a word on no list.
COMMON = word_set(
    "morning afternoon evening night today tonight tomorrow yesterday week weeks weekend month months",
    "year years hour hours minute minutes ago long short new old young early late high low small large",
    "open close family families friends kids kid child children mom dad mother father parent parents",
    "brother sister son daughter wife husband home house room school class job office city town country",
    "car food water book books movie movies music song songs game games team group story stories news",
    "money name names word words hand hands eye eyes head face body health plan plans planning planned",
    "event events party trip visit visited visiting meet meeting met walk walking walked run running ran",
    "drive driving drove read reading write writing wrote written play playing played watch watching",
    "watched listen listening buy buying bought sell eat eating ate drink cook cooking cooked sleep spend",
    "spending spent pay paid live living lived move moved moving join joined joining win won lose lost",
    "pick picked picking choose chose chosen send sent set setting add added adding check checked",
    "checking finish finished finishing stop stopped follow hold held stand sit bring carry wear wearing",
    "cut break broke fix fixed grow hit reach reached pass passed wonder decide decided realize realized",
    "recommend recommended suggest suggestion suggestions expect expected prepare prepared improve",
    "improved develop developed offer offered gain gained manage managed handle deal serve support color",
    "colors light dark black white red blue green number numbers line lines list area areas level levels",
    "kinds type types size form order case cases fact facts result results effect example examples",
    "program project projects system process service services business company companies community",
    "society public local social personal professional online video videos phone computer internet site",
    "page post posts blog nature natural outdoor outdoors sun sky park tree trees flower flowers garden",
    "sea beach mountain mountains dog cat pet pets animal animals art artist artistic paint painting",
    "skill skills practice lesson lessons course study studying research goal goals success successful",
    "career future history culture tradition relationship relationships conversation conversations topic",
    "message letter note report view views situation issue action actions activity activities hobby",
    "hobbies interest interested interests favorite favourite piece pieces bunch half top bottom front",
    "middle left inside outside nearby busy free ready happy sad angry afraid scared worried stress",
    "stressed tired sick anxious nervous lonely alone hopeful confident curious serious honest kindness",
    "trust respect understanding attention value values benefit benefits environment atmosphere spot",
    "scene style taste sign sort mix variety range quality standard amount total average rest period",
    "stage season summer winter spring fall autumn holiday vacation birthday wedding gift present",
    "presents surprise surprised dinner lunch breakfast coffee tea cake bread meal meals recipe recipes",
    "ice cream fresh hot cold wet dry clean clear heavy fast slow quick quickly slowly loud quiet safe",
    "dangerous cheap expensive rich poor simple complex basic general particular common popular famous",
    "unique perfect original current recent previous modern daily weekly monthly yearly regular normal",
    "usual woman women men boy boys girls student students teacher teachers member members leader doctor",
    "neighbor neighbors colleague colleagues boss customer customers client clients user users guest",
    "guests crowd two three four five six seven eight nine ten hundred thousand million dollar dollars",
    "percent",
)

# -- Stems

_SUFFIXES = (
    ("iveness", "ive"), ("fulness", "ful"), ("ization", "ize"), ("ational", "ate"), ("ies", "y"),
    ("ied", "y"), ("ingly", ""),
    ("edly", ""), ("ings", ""), ("ing", ""), ("ed", ""), ("ely", "e"), ("ly", ""),
    ("ers", "er"), ("es", ""), ("s", ""),
)  # fmt: skip
_SHORTEST_STEM = 3


def stem(word: str) -> str:
    """Return one form for all inflections of a word. It need not be correct, only the same in every pass."""
    if len(word) <= _SHORTEST_STEM:
        return word
    for suffix, instead in _SUFFIXES:
        if (
            word.endswith(suffix)
            and len(word) - len(suffix) >= _SHORTEST_STEM
            and not word.endswith(("ss", "us"))
        ):
            word = word[: len(word) - len(suffix)] + instead
            if word[-1] == word[-2] and word[-1] not in "lse":
                word = word[:-1]
            break
    if len(word) > _SHORTEST_STEM + 1 and word[-1] in "ei":
        word = word[:-1] + ("y" if word[-1] == "i" else "")
    return word


GENERIC_STEMS = frozenset(stem(word) for word in GENERIC)
COMMON_STEMS = frozenset(stem(word) for word in COMMON) - GENERIC_STEMS


def is_ordinary(word: str) -> bool:
    """Whether a word is on one of the lists: no name, and no command."""
    return word in FUNCTION or stem(word) in GENERIC_STEMS or stem(word) in COMMON_STEMS


# -- Units: what a text says, in parts that can be counted and compared

# The unit of a denial. Two texts of which one has it do not say the same.
DENIAL = "¬"
_DENIES = regex(
    r"\b(?:not|no|never|nor|none|nobody|nothing|neither|without|hardly|barely|cannot|stopped|quit)\b"
    r"|n['’]t\b"
    r"|[不没沒无無别別未]|ない|ません|なかった|않|안 |못|없",
    re.I,
)
# Weights of a word: on no list, on GENERIC, on COMMON.
PLAIN, GENERAL, EVERYDAY = 1.0, 0.15, 0.55
NAMED = 2.5  # numbers, dates, names
ABSTRACT = 0.7
_SHORTEST_NUMBER = 3  # characters: shorter numbers are in every text

_WORD = regex(rf"[{CJK}]+|\d[\d,]*(?:\.\d+)?|[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_CONTRACTED = regex(r"(?:'(?:s|ve|re|ll|d|m)|n't)$")
_CJK_RUN = regex(rf"[{CJK}]")
_KATAKANA = regex("[\u30a0-\u30ff]{2,}")
# A capitalised word that does not begin a sentence, or a word in capitals.
_NAME = regex(r"(?<=[\w,)'’\"”&] )[^\W\d_][\w'’&-]*|\b[A-Z]{2,}\w*")
_QUOTED = regex(r"[\"“「『]([^\"”」』\n]{3,60})[\"”」』]")
_LONGEST_SUFFIX = 12  # letters, with those before it
_ABSTRACT_SUFFIX = regex(
    r"\w{3,}(?:ness|ity|tion|sion|ance|ence|ism|ment|ful|ous|ive|able|ible|ly|ship|hood)s?$"
)
_NUMBER_WORDS = {
    word: str(n)
    for n, word in enumerate(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    )
}
# Characters that are mostly grammar. A pair that contains one says little.
_CJK_GRAMMAR = frozenset(
    "的了是在我你他她它们这那吗呢吧就都也很会有和与不要能可以把被给让对从到说着过还没个么什怎啊嗯哦呀はがをにでとものへやかねよだですますしたてるいうこそあれなさ이가은는을를에의로도고다요니"
)


def name_units(speakers: Iterable[str]) -> frozenset[str]:
    """Return the units of the speakers' names. Every line begins with one, so they say nothing inside it."""
    return frozenset(
        unit for speaker in speakers for word in _WORD.findall(speaker) if (unit := word_unit(word))
    )


@lru_cache(maxsize=2_048)
def word_unit(word: str) -> str:
    """Return the unit of one word: its stem, or "" for a word that says nothing."""
    word = word.lower().replace("’", "'")
    if word[0].isdigit():
        return word.replace(",", "")
    word = _CONTRACTED.sub("", word).replace("'", "")
    if word in _NUMBER_WORDS and word != "one":
        return _NUMBER_WORDS[word]
    if len(word) < 2 or word in FUNCTION:
        return ""
    return stem(word)


def units(text: str, speakers: frozenset[str] = frozenset()) -> dict[str, float]:
    """Return the units of a text, each with its weight."""
    named = _named(text)
    found: dict[str, float] = {DENIAL: EVERYDAY} if _DENIES.search(text) else {}
    for word in _WORD.findall(text):
        if _CJK_RUN.match(word):
            for pair, weight in _cjk_units(word):
                found[pair] = max(found.get(pair, 0.0), weight)
        elif (unit := word_unit(word)) and unit not in speakers:
            found[unit] = max(found.get(unit, 0.0), _weight(word, unit, named))
    return found


def _named(text: str) -> frozenset[str]:
    """Return the units that are part of a name or a quotation."""
    spans = [word for word in _NAME.findall(text) if word[0].isupper()] + _QUOTED.findall(text)
    return frozenset(unit for span in spans for word in _WORD.findall(span) if (unit := word_unit(word)))


def _weight(word: str, unit: str, named: frozenset[str]) -> float:
    if unit[0].isdigit():
        return NAMED
    if unit in GENERIC_STEMS:
        return GENERAL
    if unit in named:
        return NAMED
    if unit in COMMON_STEMS:
        return EVERYDAY
    return ABSTRACT if _ABSTRACT_SUFFIX.search(word[-_LONGEST_SUFFIX:]) else PLAIN


def _cjk_units(run: str) -> Iterable[tuple[str, float]]:
    """Yield pairs of characters. Each counts for half a word, since a word makes about two pairs."""
    for name in _KATAKANA.findall(run):
        yield name, NAMED
    if len(run) == 1:
        yield run, 0.3
    for i in range(len(run) - 1):
        pair = run[i : i + 2]
        grammar = (pair[0] in _CJK_GRAMMAR) + (pair[1] in _CJK_GRAMMAR)
        yield pair, (0.6, 0.2, 0.05)[grammar]


TIME = regex(
    r"\b(?:yesterday|last night|today|tonight|tomorrow|this (?:morning|afternoon|evening)"
    r"|(?:last|past|previous|this|next|coming) (?:few )?(?:weeks?|weekend|months?|years?|summer|winter"
    r"|spring|fall|autumn|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    r"|(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|couple of|few) (?:day|week|month|year)s?"
    r" (?:ago|later|from now)|(?:since|for|in) (?:\d+|an?|one|two|three|four|five|six|seven|ten|few)"
    r" (?:day|week|month|year)s?|(?:january|february|march|april|may|june|july|august|september|october"
    r"|november"
    r"|december) \d{1,2}|\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:january|february|march|april|may|june"
    r"|july|august"
    r"|september|october|november|december)|in (?:january|february|march|april|may|june|july|august"
    r"|september"
    r"|october|november|december)|(?:19|20)\d\d)\b|昨天|明天|今天|前天|后天|上周|下周|上个月|下个月"
    r"|去年|明年"
    r"|昨日|明日|今日|先週|来週|先月|来月|昨年|来年|어제|내일|오늘|지난주|다음 ?주|지난달|다음 ?달"
    r"|작년|내년",
    re.I,
)


@lru_cache(maxsize=1_024)
def value_units(text: str) -> tuple[str, ...]:
    """Return the exact values of a text that someone may ask for, as units: each once, in order."""
    return tuple(
        dict.fromkeys(
            "#" + value.text.lower()
            for value in find_values(text)
            if value.kind != "quoted" and not (value.kind == "number" and len(value.text) < _SHORTEST_NUMBER)
        )
    )


# -- What a sentence leaves to the one before it

# "好的，", "なるほど。": what is said with it begins behind it.
_CJK_FILLER = regex(
    r"(?:(?:[Oo][Kk]|好的?|好嘞|嗯+|哦|噢|啊|唉|耶|哈哈+|对(?:[了对]|的)*|行(?:吧|了)*|是的|了解|明白了?|知道了?|收到|辛苦了?|没错|没问题|没关系|抱歉|谢了?谢*"
    r"|那就好|太好了|恭喜你?|うん|はい|ええ|え[っー]?|あ[あっ]?|ううん|いいえ|いや|なるほど|了解(?:です|しました)?|わかりました|わかった|よかった(?:です)?"
    r"|助かり?(?:ます|る)|(?:どうも)?ありがとう(?:ございます)?|すみません|(?:大変)?申し訳(?:ございません|ありません)|承知(?:しました|いたしました)|かしこまりました"
    r"|お願いします|あはは|やった|おめでとう(?:ございます)?|おはようございます|こん(?:にちは|ばんは)|そうですか|そうなんだ|そっか|大丈夫(?:よ|だよ|です)?|まだ"
    r"|응|네|예|아니(?:야|요)?|그래|그렇구나|알았어|알겠(?:어요?|습니다)|좋아|고마워|다행(?:이다|이네요|입니다)|괜찮아요?|정말)(?:[，、。！,.!？?…\s]|[\U0001f300-\U0001faff\ufe0f])+)+"
)
# Before the first comma: what it means is not named in the sentence. "これから", "这次" point at no thing.
_CJK_POINTER = regex(
    r"^(?:[他她彼]|那(?![么我你您就会是])|其(?!他|实|中|余)|此(?!次|外|前)|里面|其中|同样|(?:方案|选项|办法|案)[二三四五]|第[二三四五][,，:：])"
    r"|^我也(?!许)|^[^。！？,.，、与和跟同]{0,12}(?:相关|类似|同类)的"
    r"|^(?:[^。！？、]{0,4}は)?途中で"
    r"|^[^、，。！？,.]{0,8}?(?<!其)[他她]"
    r"|^[^、，。！？,.]{0,20}?(?:它|[这這](?!次|周|週|几|两[周天年月个]|里|边|段|样|么(?![说想做])|份|方|月|一[周年天])|那(?:个|些|件|次|边|天|时候?)|[前后後]者|[两両]方|两者"
    r"|同じ(?!よう|く)|そ(?:れ(?!ぞれ|と、|に、|から)|の(?!うち)|こ(?!そ)|う(?:だ|で|な|し|い(?!えば)|思|言)|っち|んな)"
    r"|(?<!ど)こ(?:れ(?!から|まで)|の(?!前|間|頃|くらい|ぐらい))|あ(?:れ(?!ば)|の(?=\w)))"
    r"|^[^。！？]{0,40}?(?:そっち|あっち|、(?:それ|これ|あれ)[。！？])"
    # "带上片子，他会问的": nobody before that is named.
    r"|^(?:(?![妈爸父母弟哥姐妹师生友]|[\u4e00-\u9fff]{2,3}(?:说|是|要|也|叫|问|让))[^。！？]){0,30}，[他她]"
    r"|^(?:\S+ ){0,2}(?:그(?:것|건|게|걸|녀|는|가|의|들|래서|때|곳|렇|런|럼)|그 |이(?:것|건|게|거)|저것|거기"
    r"|걔)"
    # "我同意，但…", "五階は大変だね", "三本は多いだろ", "太可惜了": said of what someone else said.
    r"|^(?:我|私|僕|俺)?[也もは]?(?:完全|非常|基本)?(?:同意|赞成|賛成|反对|反対|同感)(?:[，。！、]|だ|です|します)"
    # With が, people say what they speak of.
    r"|^[^。！？が]{0,30}?(?:大変|残念|すごい|し[ょよ]うがない|仕方が?ない|楽しそう|うらやましい|もったいない)(?:です|だ)?よ?ね?[。！]"
    r"|^[^。！？]{0,20}(?:(?:だろ|でしょ|じゃん)[ねよ]?|(?:いい|よくない|大丈夫)じゃない)[。！]"
    r"|^(?:太|真是?|好)[^，。！？我你您]{1,4}[了啊呀吧][。！]"
    r"|^(?:저도 |나도 )?(?:동의|찬성)(?:해|합|하|이|입)"
    r"|^(?:정말 |진짜 |너무 )?\S{1,6}(?:겠네요?|겠다|구나|군요)[.!]"
)
CJK_PERSON = regex(r"[^、，。！？,.]{0,8}?(?<!其)[他她彼]|그녀|걔")
# A reason, or what follows from one, is said of the sentence before.
_CJK_REASON = regex(
    r"^(?:因为|所以|因此|还有[，、]|나도(?=[.,!\s])|저도(?=[.,!\s])|那(?:我|你|您|咱|就|先)|だから|なので|では|じゃあ|じゃ、|だったら|なら、|それなら|그래서|그럼|그러면|왜냐)"
    r"|(?:から|ため)です。?$|때문(?:이에요|입니다)\.?$"
)
# A topic that is not a time: not "今は", "金曜は", "からは", nor in "はず".
_JAPANESE_TOPIC = regex(
    r"[\w」](?<![でにと今日回度頃後前初時分月週年曜])(?<!から)(?<!まで)(?<![私僕俺])は(?![ずい]|じめ)"
)
# A subject, a topic or an object: without a subject, it is the speaker who does something with that. "でも",
# "ですが" and "するのが" name none; Chinese leaves the subject out before an adverb.
_JAPANESE_SUBJECT = regex(
    r"[\w」](?<![でにと今日回度頃後前初時分月週年曜])(?<!から)(?<!まで)は(?![ずい]|じめ)"
    r"|[\w」](?<![すただないるの])が(?![るりらっ])|[\w」](?<![でとにてまつら])も(?![うしっ])|[\w」]を|私|僕|俺|うち|自分"
)
# "確認したら、三月二十五日まででした": of what, no word says.
_JAPANESE_OBJECT = regex(r"[\w」](?:[をへが]|に(?!は))")
_JAPANESE_SELF = regex(r"私|僕|俺|うち(?![にで])|自分")
# "俺は五年前に行った": of the speaker, but not where to; "俺は大好き".
_JAPANESE_NO_OBJECT = regex(
    r"(?:あ、)?(?:私|僕|俺)(?:は|も|が|、)(?:(?:[\d一二三四五六七八九十]+(?:年|[かヶ]月|週間|日)前|去年|先[週月]|昨日|今[年朝日]|[月火水木金土日]曜は)(?:\([\d/W-]+\))?に?)?"
    r"[^をにへがとでの、。]{0,14}(?:[たるうくすつむぶ]|ない|ません|好き|嫌い|平気|無理|だめ|同じ|賛成|反対)(?:です|だ|よ|ね|わ|な|けど|かも)*[。！]?$"
)
_KOREAN_TOPIC = regex(r"\w(?<![저나하있없되])(?:은|는)(?=[\s,.?!])")
_KOREAN_SUBJECT = regex(
    r"\w(?<![하있없되같많좋])(?:은|는|이|가|도|을|를)(?=[\s,.?!]|$)|(?:^|\s)(?:저|제|나|내|우리)(?=[\s는가])"
)
_KOREAN_SELF = regex(r"(?:^|\s)(?:저|제|나|내|난|전)(?=[\s는가도])")
_CHINESE_NO_SUBJECT = regex(
    r"^(?:今[天早晚]|明天|昨[天晚]|[前后]天|现在|刚刚?|目前|上上?周|下下?周|[一二两三四五六七八九十\d]+[个]?[天周月年][前后])?(?:\([\d/W-]+\))?内?"
    r"(?:就|又|再|还(?!有)|也|都|没|不|已|可以|能|会|要|得|别|先|暂|应该|必须|需要|建议|[把被让])"
    r"|^[\u4e00-\u9fff]{1,2}了(?!解)"
    # "我问了，六百五": of the speaker, but not what.
    r"|^我们?(?:自己|已经|都|刚|也|就|还|早)*[\u4e00-\u9fff][早好完到]?[了过](?:[，。！一二两三四五六七八九十几]|$)"
    r"|^我[^，。]{0,5}去过(?:[一两几]次)?(?:[，。]|$)"
    r"|^[^我你您咱妈爸奶爷姐妹哥弟叔舅]{1,5}$|^(?:请问)?(?:什么|怎么|为什么|几|多少|哪)[^我你您咱]{0,6}$"
    r"|^(?:有没有|是不是|要不要|会不会|能不能|行不行)[^我你您咱]{1,10}[?？]$"
)
_CHINESE_SELF = regex(r"(?:我|咱|俺)")
_KANA, _HANGUL = regex("[\u3041-\u3096]"), regex("[\uac00-\ud7af]")
_SHORT_ANSWER, _LONG_ANSWER = 6, 16  # words: one is nothing without its question, the other speaks for itself
_SHORT_IN_CHINESE, _SHORT_IN_KANA = 8, 18  # characters of a text that says little alone
_LONG_CJK_ANSWER = 45  # characters
_ELLIPTIC = regex(
    r"(?:yes|no|yeah|yep|yup|nope|nah|sure|not|never|because|since|for|in|at|on|about|around|mostly"
    r"|mainly|usually|just|only"
    r"|probably|maybe|absolutely|definitely|totally|exactly|of course|right|true|the|an?)\b|是的|不是"
    r"|对|没有|はい|いいえ|うん|네|아니",
    re.I,
)
_VERB = regex(
    r"\b(?:i|we|my|our)\b|\b(?:is|are|was|were|has|have|had|will|would|can|could|did|do|does)\b|'(?:s"
    r"|m|re|ve|ll|d)\b",
    re.I,
)
# "Since I was 17.": there is no other clause that it says something of.
_CLAUSE_ALONE = regex(r"(?:since|because|until|when|after|before|while) [^,;]+$", re.I)


def refers_back(text: str) -> bool:
    """Whether a sentence speaks of something that only what was said before it names."""
    if is_cjk(text):
        text = without_filler(text)
        return bool(_CJK_POINTER.match(text) or _CJK_REASON.search(text))
    return points_back(text)


def without_filler(text: str) -> str:
    """Return a Chinese, Japanese or Korean text from where it says something."""
    found = _CJK_FILLER.match(text)
    return text[found.end() :] if found else text


def goes_on(text: str) -> bool:
    """Whether a Chinese, Japanese or Korean sentence names no topic and no subject: they are those of the
    one before, if any. So is what its speaker does something with, where it is not named."""
    if not is_cjk(text):
        return False
    if _KANA.search(text):
        return not _JAPANESE_SUBJECT.search(text) or bool(_JAPANESE_NO_OBJECT.match(text))
    if _HANGUL.search(text):
        return not _KOREAN_SUBJECT.search(text)
    return bool(_CHINESE_NO_SUBJECT.match(text.rstrip("。！!.")))


def is_reply(text: str) -> bool:
    """Whether a Chinese, Japanese or Korean text is so short that it says little beside what it answers."""
    return is_cjk(text) and len(without_filler(text)) <= (
        _SHORT_IN_KANA if _KANA.search(text) or _HANGUL.search(text) else _SHORT_IN_CHINESE
    )


def names_object(text: str) -> bool:
    """Whether a sentence without a subject says at least with what something is done; in Japanese a particle
    tells."""
    return not _KANA.search(text) or bool(_JAPANESE_OBJECT.search(text))


def is_elliptic(answer: str, question: str) -> bool:
    """Whether an answer says little without its question."""
    words = answer.split()
    if is_cjk(answer):
        return _is_elliptic_cjk(answer, question)
    if len(words) <= _SHORT_ANSWER or _CLAUSE_ALONE.match(answer):
        return True
    if _ELLIPTIC.match(answer) and not _VERB.search(" ".join(words[1:6])):
        return True
    if len(words) > _LONG_ANSWER:
        return False
    asked = {unit for unit, weight in units(question).items() if weight >= ABSTRACT}
    return bool(asked) and asked.isdisjoint(units(answer))


def answers_unseen(text: str) -> bool:
    """Whether a Chinese, Japanese or Korean sentence may answer a question that nobody sees: it speaks of no
    topic, nor of its speaker."""
    own = (_JAPANESE_SELF, _KOREAN_SELF, _CHINESE_SELF)
    return is_cjk(text) and is_elliptic(text, "") and not any(self.search(text) for self in own)


def _is_elliptic_cjk(answer: str, question: str) -> bool:
    """Whether an answer names no topic: "元気だけど、膝が悪い" says nothing of whose. Where it begins with
    its speaker, it must have a word of the question."""
    if len(answer) <= 2 * _SHORT_ANSWER or _ELLIPTIC.match(answer):
        return True
    said = without_filler(answer)
    if len(said) > _LONG_CJK_ANSWER:
        return False
    if _KANA.search(said):
        topic, own = _JAPANESE_TOPIC.search(said), _JAPANESE_SELF.search(said)
    elif _HANGUL.search(said):
        topic, own = _KOREAN_TOPIC.search(said), _KOREAN_SELF.search(said)
    else:
        topic, own = without_filler(question).startswith(said[:2]), _CHINESE_SELF.match(said)
    if topic:
        return False
    asked = {unit for unit, weight in units(question).items() if weight > EVERYDAY and not _KANA.search(unit)}
    return not own or asked.isdisjoint(units(said))


# -- What says nothing by itself

_COURTESY = regex(
    r"^(?:(?:thanks?|thank you|thx)\b|for (?:shar|ask|be|listen|help|check|hav|tell|lett|giv)in[g']"
    r"|for (?:the|all the|your|all your) (?:kind |great )?(?:words?|help|advice|support|tips?|info|offer"
    r"|encouragement|suggestions?)\b|take care\b"
    r"|(?:talk|see|catch|speak)(?: to| with)? (?:you|ya|soon|later)\b|talk soon|good luck\b|keep (?:it"
    r"|going) ?up?\b"
    r"|have a (?:great|good|nice)|you're welcome|no problem|any time|anytime|cheers\b|bye\b"
    r"|long time no (?:see|talk)\b|let me know\b"
    r"|feel free\b|sorry (?:to hear|about)\b|glad (?:to|you)\b|happy to (?:help|hear)\b"
    r"|great (?:job|work)\b|good (?:job|for you)\b|well done\b|what an? [\w' -]{1,40}!+$"
    r"|(?:please )?(?:hold on|bear with me|wait|one moment|just a (?:moment|second|minute))\b"
    r"|(?:(?:pleased|nice|great|good|lovely) )?to meet you(?: too| both| all)?[.!]*$"
    r"|(?:is there )?anything else\?$"
    r"|(?:what can i do for you|how (?:can|may) i (?:help|assist)(?: you)?)(?: today| now)?\?$"
    r"|谢谢|不客气|再见|好的[，。]?$|よろしく|ありがとう|감사|고마"
    r"|(?:大家|各位|你们?)?(?:早(?:上好|安)?|(?:上午|中午|下午|晚上)?好|晚安)[呀啊。！!～]*$"
    r"|(?:皆さん、?)?(?:おはよう|こんにちは|こんばんは|おやすみ|お疲れ(?:さま|様))(?:ございます|なさい|です|でした)?[。！!]*$"
    r"|(?:여러분,? ?)?(?:안녕(?:하세요)?|좋은 (?:아침|저녁)(?:이에요|입니다)?|수고하(?:세요|셨습니다))[.!]*$"
    # Praise of what someone else tells or shows.
    r"|(?:(?:that|this|those|these|it|your)\b[^.!?,]{0,40}? )?(?:looks?|sounds?) (?:(?:so|really|very"
    r"|absolutely|super) )*(?:great|amazing|awesome|good|nice|cool|fun|fantastic|incredible|lovely|beautiful"
    r"|delicious|wonderful|perfect|exciting|cute|tasty|yummy|interesting|relaxing|inspiring)(?: too)?[.!]+$)",
    re.I,
)
_FEW_WORDS = 10  # of a courtesy: a longer sentence says something more
_CONFIRMS = regex(
    r"(?:(?:yes|sure|ok(?:ay)?|great|perfect|alright),? )?(?:please )?"
    r"(?:proceed|go ahead|continue|do (?:so|it|that))\b"
    r"(?: and \w+)?(?: with (?:that|this|the|those|these|all|it)\b[^.!?,;]*)?[.!… ]*$"
    r"|i (?:understand|see|agree|get it)[.!]$|\[\d+ lines of code\]\.?$",
    re.I,
)
# What is about to be tried. What came of it is said by the call.
_ATTEMPT = regex(
    r"(?:(?:now|first|next|then|ok(?:ay)?|great|good|perfect),? )*(?:to [^,.:;]{3,80}, )?"
    r"(?:let me|let's|let us|让我|我来)\b",
    re.I,
)
_INTENT = regex(
    r"(?:(?:now|first|next|then|ok(?:ay)?|great|good|perfect),? )*(?:to [^,.:;]{3,80}, )?"
    r"(?:i'll|i will|i'm going to|i am going to"
    r"|i'm now|i need to|we need to|i should|i want to|we should)\b",
    re.I,
)


def is_courtesy(text: str) -> bool:
    if is_cjk(text) and not without_filler(text):  # "行。", "收到！"
        return True
    return (bool(_COURTESY.match(text)) and len(text.split()) <= _FEW_WORDS) or greets(text)


def confirms(text: str) -> bool:
    """Whether a text only says that something before it is clear, or may be done, or that there is code."""
    return bool(_CONFIRMS.match(text)) and len(text.split()) <= _FEW_WORDS


def is_attempt(text: str, *, with_call: bool) -> bool:
    """Whether an assistant only announces what it does next. `with_call`: it calls a tool at once."""
    return bool(_ATTEMPT.match(text) or (with_call and _INTENT.match(text)))


# -- The priority of what is said

# A critical line is kept word for word for ever, so few lines are critical.
_CRITICAL = regex(
    r"\ballergic\b|\b(?:my|his|her|our|their|ha(?:ve|s|d)|severe) (?:\w+ ){0,3}allerg(?:y|ies)\b"
    r"|\ballerg(?:y|ies) to\b|\bemergency\b|\b(?:production|prod|site|server|service) (?:is |was "
    r"|went )?down\b|\boutage\b"
    r"|\bdata loss\b|\bbreach(?:ed)?\b|\b(?:never|do not|don't) (?:ever )?(?:deploy|delete|push|share"
    r"|drop|publish|commit)\b|过敏|紧急|緊急|アレルギー|알레르기|긴급",
    re.I,
)
_FAILURE = regex(r"\b(?:fail(?:ed|s)?|error|crash(?:ed|es)?|broke|bug)\b|失败|错误|故障|障害|失敗|오류", re.I)
# "失敗は0件です": nothing failed.
_NO_FAILURE = regex(
    r"(?:失敗|エラー|障害)[はが]?(?:[0０]件|なし|ゼロ|出(?:ません|なかった|ない)|ありません)"
    r"|(?:没有?|无)(?:错误|失败)|오류[가는도]? ?없"
)
_REMEDY = regex(
    r"\b(?:fixed|(?:the|a) fix|solved|resolved|because|caused|due to|root cause|missing|by setting"
    r"|turned out)\b"
    r"|因为|原因|修复|修正|원인",
    re.I,
)
# "Confirm that the error is fixed", "It may be because …": nobody says that it is so.
_UNCERTAIN = regex(
    r"\b(?:if|whether|confirm|check|ensure|make sure|may|might|could|would|should|please"
    r"|guess(?:ing)?|probably)\b",
    re.I,
)
_IMPORTANT = regex(
    r"\b(?:decided (?:to|on|that|not)|agreed (?:on|to|that)|approved|confirmed"
    r"|deadline (?:is|was|for|on|by|has|moved)|(?:the|our|my|new) deadline[^.]{0,30}\d|due (?:on|by|date)"
    r"|from now on|remember that(?! (?:you|it's|it is|life|everyone|nobody|no one|we all)\b)"
    r"|always use|never use|please (?:always|never|don't)|cancell?ed|diagnosed"
    r"|got (?:married|engaged|promoted|fired|hired|the job)|moved to|quit (?:my|the) job)\b"
    r"|决定|確定|确定|确认|截止|必须|务必|记住|決定|締め切り|必ず|결정|마감|반드시",
    re.I,
)


def priority(text: str, *, asks: bool = False, by_others: bool = False) -> str:
    """Return CRITICAL, IMPORTANT or NOTE. What is `by_others`, and no person's own word, is a NOTE."""
    if asks or by_others:
        return "NOTE"
    if _CRITICAL.search(text) or explains_failure(text):
        return "CRITICAL"
    return "IMPORTANT" if _IMPORTANT.search(text) else "NOTE"


def explains_failure(text: str) -> bool:
    """Whether a piece says what went wrong together with why, or what mended it."""
    failed = _FAILURE.search(_NO_FAILURE.sub("", text))
    return bool(failed and _REMEDY.search(text) and not _UNCERTAIN.search(text))
