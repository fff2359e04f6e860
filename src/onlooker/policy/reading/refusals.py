"""Answers that are no note: refusals, requests for something to note, and "nothing to note"."""

from __future__ import annotations

import re

# Each is what a refusal begins with; a note begins with a date, a name or a topic.
_REFUSALS = (
    # English
    r"(?:i(?:'|’)?m|i am|we(?:'|’)?re) (?:very |really |so |truly )?(?:sorry|afraid)\b",
    r"sorry,? (?:but )?(?:i|we|as|this|that|your)\b",
    r"i apologi[sz]e",
    r"unfortunately,? (?:i|we)\b",
    r"i(?:(?:'|’)m| am) (?:unable|not able|not allowed|not permitted|prohibited|just an? (?:ai|language))",
    r"i (?:can(?:'|’)?t|cannot|can not|won(?:'|’)t|will not|must (?:decline|refuse)|have to (?:decline"
    r"|refuse)|decline|refuse)\b",
    r"i(?:'|’)?d (?:rather|prefer) not",
    r"i (?:do not|don(?:'|’)t) (?:have (?:access|enough|the ability|any)|see any|feel comfortable"
    r"|think i (?:can|should))",
    r"as an? (?:ai|large language|language)\b",
    r"(?:this|your|the) (?:request|content|conversation|prompt|input) (?:goes against|violates"
    r"|may violate)",
    r"(?:the|your) (?:conversation|input|prompt|text) (?:is|was|appears|seems)(?: to be)? (?:empty"
    r"|missing|blank)",
    r"(?:it (?:looks|seems|appears) (?:like|that) )?(?:there (?:is|was)|you(?:'|’)?(?:ve| have)?) (?:no"
    r"|not|n(?:'|’)t|haven(?:'|’)t)"
    r" ?(?:conversation|messages?|text|content|provided|included|shared|pasted)",
    r"it (?:looks|seems|appears) (?:like|that|as if) (?:you|there (?:is|are|was|were) no"
    r"|the (?:conversation|input))\b",
    r"(?:please|could you(?: please)?|can you(?: please)?) (?:provide|share|paste|send|give|upload)\b",
    r"no (?:conversation|messages?|text|content) (?:was|were|has been|have been) (?:provided|given"
    r"|included|found)",
    r"\[?(?:content (?:filter|blocked|removed)|blocked by|request blocked|response blocked|redacted by)",
    # Chinese, Japanese, Korean
    r"(?:很|非常|十分)?(?:抱歉|对不起|對不起|不好意思)",
    r"(?:作为|作為)(?:一个|一個|一名)?(?:ai|人工智能|人工智慧|语言模型|語言模型)",
    r"我(?:无法|無法|不能|没有办法|沒有辦法|不可以)(?:协助|協助|帮|幫|提供|处理|處理|完成|满足|回答"
    r"|继续|为|對|对)",
    r"(?:请|請)(?:提供|您提供|给出|輸入|输入)",
    r"(?:大変|誠に)?(?:申し訳(?:ありません|ございません|ないですが)|すみません|恐れ入りますが"
    r"|ごめんなさい)",
    r"(?:私は)?(?:ai|言語モデル)(?:アシスタント)?(?:として|なので|であるため)",
    r"(?:その|この|ご)(?:ご?要望|リクエスト|依頼)(?:に)?は?(?:お応え|対応|お答え)(?:でき|いたしかね)",
    r"(?:죄송|미안)(?:합니다|하지만|해요|스럽)",
    r"(?:저는 )?(?:ai|인공지능|언어 모델)(?:로서|이기 때문에|이므로)",
    r"(?:해당|이) 요청(?:은|을|에는?) .{0,12}(?:수 없|어렵)",
    # European languages
    r"(?:es )?tut mir (?:sehr )?leid|leider (?:kann|darf|bin) ich|ich kann (?:dabei|dir|ihnen|diese|das"
    r"|dieser)\b.{0,40}\bnicht|ich bin nicht in der lage"
    r"|als (?:ki|sprachmodell)\b",
    r"(?:je suis )?(?:désolée?|navrée?)\b|je ne (?:peux|suis) pas|je regrette|malheureusement,? je"
    r"|en tant qu(?:e |['’])(?:ia|modèle|assistant|intelligence)",
    r"lo siento|lo lamento|no puedo (?:ayudar|cumplir|proporcionar|asistir|continuar|procesar)"
    r"|como (?:modelo|ia|inteligencia)\b|lamentablemente,? no",
    r"(?:sinto muito|desculpe|lamento)\b|não posso (?:ajudar|fornecer|atender|continuar)"
    r"|como (?:um )?modelo de linguagem|infelizmente,? não",
    r"mi dispiace|non posso (?:aiutar|fornire|soddisfare|continuare)|come (?:modello|intelligenza|ia)\b"
    r"|purtroppo non",
    r"het spijt me|sorry,? (?:maar )?ik kan|ik kan (?:u|je|hier|dit|deze)\b.{0,40}\bniet|als (?:ai"
    r"|taalmodel)\b",
    r"(?:jeg )?beklager\b|(?:jeg kan )?dessverre|jeg kan ikke (?:hjelpe|oppfylle|bistå|gi)"
    r"|jag kan (?:tyvärr )?inte|tyvärr kan jag|jeg kan desværre",
    r"przykro mi|przepraszam|niestety,? nie mogę|nie mogę (?:pomóc|spełnić)|jako model",
    r"извините|к сожалению,? я|простите|я не могу (?:помочь|выполнить|предоставить|ответить)"
    r"|как (?:языковая модель|ии|искусственный)",
    r"вибачте|на жаль,? я|üzgünüm|maalesef|bu isteğe|omlouvám se|bohužel nemohu|sajnálom|îmi pare rău"
    r"|valitettavasti en|anteeksi",
    # Others
    r"(?:عذر|آسف|أعتذر|للأسف|لا أستطيع|لا يمكنني)|(?:סליחה|מצטער|אני לא יכול)|(?:क्षमा|माफ़|मुझे खेद)"
    r"|(?:ขออภัย|ขอโทษ)",
    r"(?:xin lỗi|rất tiếc|tôi không thể)|(?:maaf|mohon maaf)",
)
_REFUSES = re.compile("|".join(f"(?:{pattern})" for pattern in _REFUSALS), re.I)

_NOTHING = re.compile(
    r"[\W_]*(?:none|n/?a|nil|null|empty|nothing|no (?:new |further |notable |relevant |significant "
    r"|important )*"
    r"(?:observations?|notes?|reflections?|information|facts|updates?|content|changes)"
    r"|(?:there (?:is|are|was|were) )?nothing (?:new |else |notable |important "
    r"|significant )*(?:to (?:note|observe|report|add|record|remember))?"
    r"|there (?:are|were) no (?:new |further |notable |relevant |significant "
    r"|important )*(?:observations?|notes?|facts|updates?)"
    r"|keine(?: neuen)?(?: beobachtungen| notizen)?|aucune(?: nouvelle)?(?: observation| note)?"
    r"|ninguna?(?: observación| nota)?"
    r"|ingen(?: nye)?(?: observasjoner| notater)?|无|無|没有|暂无|没有新的?(?:观察|信息|内容)"
    r"|无(?:新)?(?:观察|内容|笔记)|なし|特になし|特筆事項なし"
    r"|없음|해당 없음|нет(?: новых)?(?: наблюдений| заметок)?)"
    r"(?: (?:to (?:report|note|add|record|observe)|at this time|so far|yet|were made|found|here"
    r"|in this (?:conversation|chunk|batch)))*[\W_]*",
    re.I,
)
_SPEAKS_TO_THE_USER = re.compile(
    r"(?:(?:hi|hello|hey)(?: there)?[,! ]|thank you for|thanks for|you(?:'|’)re welcome|great question"
    r"|how can i help|happy to help"
    r"|i(?:'|’)?d be happy to|i(?:'|’)ll (?:help|get|take|look|go|start|fix|do|check)|let(?:'|’)s\b"
    r"|sure[,!.] |of course[,!.] |certainly[,!.] "
    r"|好的[，,！]|没问题|您好|你好|はい、|こんにちは|ありがとうございます|안녕하세요|네, |bonjour"
    r"|hola[,! ]|hallo[,! ]|gerne[,!])",
    re.I,
)


def refuses(text: str) -> bool:
    """Whether the text begins as a refusal does."""
    return bool(_REFUSES.match(text.lstrip(" \t\n*_\"'“”「『>#-")))


def says_nothing(text: str) -> bool:
    """Whether the text only says that there was nothing to note."""
    return len(text) < 120 and bool(_NOTHING.fullmatch(text.strip()))


def speaks_to_the_user(text: str) -> bool:
    """Whether the text goes on with the conversation instead of noting it."""
    return bool(_SPEAKS_TO_THE_USER.match(text.strip()))
