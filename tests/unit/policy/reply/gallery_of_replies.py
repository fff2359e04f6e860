"""What models answer when they are asked for a note: bad replies with their reason, and good ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gallery_of_sources import (
    CHINESE,
    CRITICAL,
    ENGLISH,
    GERMAN,
    JAPANESE,
    KOREAN,
    NOTES,
    RUSSIAN,
    SHORT,
    TOOLS,
)

from onlooker.policy.prompts import observer_prompt

PROMPT = observer_prompt([], target_tokens=200).system


class Case(NamedTuple):
    """A reply, and what was asked."""

    name: str
    reply: str
    source: str = ENGLISH
    reason: str = ""
    asked: Mapping[str, Any] = MappingProxyType({})


def bad(reason: str, name: str, reply: str, source: str = ENGLISH, **asked: Any) -> Case:
    return Case(name, reply, source, reason, asked)


_PATHS = "src/a/one.py, src/a/two.py, src/a/three.py, src/b/one.py, src/b/two.py"
_LINE = "[14:02] IMPORTANT Ana moved to Oslo last week (2026-02-09).\n"
_GOOD_START = """\
## 2026-02-16
IMPORTANT Ana moved to Oslo last week (2026-02-09), Thereses gate 14, rent NOK 16,500, landlord Henrik.
CRITICAL Deploy failed: DATABASE_URL missing; fixed by setting the secret, never in fly.toml.
IMPORTANT Go-live was Friday, now Monday 2026-02-23, because Jonas is ill.
Order 88-1431 (€1,240.50) has not come; assistant wrote to support@moebel.example.com.
"""

BAD = [
    bad("empty", "nothing at all", ""),
    bad("empty", "blank lines", " \n\t\n  \n"),
    bad("empty", "a lone NUL", "\x00\x00"),
    bad("empty", "none", "None."),
    bad("empty", "not applicable", "N/A"),
    bad("empty", "no new observations", "No new observations."),
    bad("empty", "nothing to note", "There is nothing new to note."),
    bad("empty", "nothing under a heading", "## 2026-02-16\nNo notable updates."),
    bad("empty", "nothing, in Chinese", "暂无", CHINESE),
    bad("empty", "nothing, in Japanese", "特になし", JAPANESE),
    bad("unparseable", "a heading alone", "## 2026-02-16\n"),
    bad("unparseable", "an empty code fence", "```\n```"),
    bad("unparseable", "empty tags", "<observations></observations>"),
    bad("unparseable", "preamble alone", "Here are the observations:"),
    bad("refusal", "sorry, cannot", "I'm sorry, but I can't help with that."),
    bad("refusal", "typographic apostrophe", "I’m sorry, I can’t assist with this request."),
    bad(
        "refusal",
        "as a language model",
        "As an AI language model, I do not have access to past conversations.",
    ),
    bad("refusal", "unable", "I am unable to summarise this conversation because it contains personal data."),
    bad("refusal", "cannot comply", "I cannot comply with this request."),
    bad("refusal", "policy", "This content violates our usage policies."),
    bad("refusal", "please provide", "Please provide the conversation that you would like me to observe."),
    bad(
        "refusal",
        "nothing was provided",
        "It looks like you haven't included any messages. Could you paste them?",
    ),
    bad("refusal", "in our own form", "## 2026-02-16\n[14:02] NOTE I'm sorry, but I can't assist with that."),
    bad("refusal", "said by the provider", "Ana moved to Oslo.", finish="refused"),
    bad("refusal", "in German", "Es tut mir leid, aber dabei kann ich nicht helfen.", GERMAN),
    bad("refusal", "in French", "Je suis désolé, mais je ne peux pas répondre à cette demande."),
    bad("refusal", "in Spanish", "Lo siento, pero no puedo ayudar con eso."),
    bad("refusal", "in Portuguese", "Desculpe, mas não posso ajudar com isso."),
    bad("refusal", "in Italian", "Mi dispiace, ma non posso aiutarti con questa richiesta."),
    bad("refusal", "in Norwegian", "Beklager, men jeg kan ikke hjelpe med det."),
    bad("refusal", "in Chinese", "抱歉，我无法协助处理这个请求。", CHINESE),
    bad("refusal", "in Japanese", "申し訳ありませんが、そのご要望にはお応えできません。", JAPANESE),
    bad("refusal", "in Korean", "죄송하지만 해당 요청은 도와드릴 수 없습니다.", KOREAN),
    bad("refusal", "in Russian", "Извините, но я не могу помочь с этим запросом.", RUSSIAN),
    bad("refusal", "of any conversation", "The user and the assistant talked about several topics."),
    bad("refusal", "in prose", "I apologize, but I won't be able to summarise that.", format="prose"),
    bad("cut off", "said by the provider", _GOOD_START, finish="length"),
    bad("cut off", "inside a stamp", _GOOD_START + "[2026-02-"),
    bad("cut off", "after a priority", _GOOD_START + "[14:09] IMPORTANT"),
    bad("cut off", "after a comma", _GOOD_START + "Ana prefers e-mail,"),
    bad("cut off", "after an opening bracket", _GOOD_START + "Ana will call her sister Marta ("),
    bad("cut off", "before what must follow", _GOOD_START + "Ana wants to be reminded of the"),
    bad("cut off", "inside a word", _GOOD_START + "Ana prefers e-mail to pho"),
    bad("cut off", "inside a word of the source", "Ana moved to Oslo\nHenrik wants the depo"),
    bad("cut off", "inside a word, in German", "Der Vermieter möchte die Kauti", GERMAN),
    bad("cut off", "inside a word, in Russian", RUSSIAN.split(":", 1)[1].split(".")[0].strip()[:-3], RUSSIAN),
    bad("cut off", "inside a name that a line begins with", "Ana moved to Oslo\n[14:09] Henr"),
    bad(
        "cut off",
        "inside a word of an earlier note",
        "Ana moved to Oslo and goes on with the vegeta",
        shown_text="## 2026-02-15\nAna grows herbs with the vegetables",
    ),
    bad("cut off", "inside a heading", _GOOD_START + "##"),
    bad("cut off", "still thinking", "<think>\nThe user wants dated lines. Ana moved to Oslo, so"),
    bad(
        "cut off",
        "inside a sentence of prose",
        "Ana moved to Oslo. She wants the go-live on Monday. The assistant wrote to the furn",
        format="prose",
    ),
    bad("degenerate", "one line for ever", "## 2026-02-16\n" + _LINE * 40),
    bad(
        "degenerate",
        "one line with a moving clock",
        "".join(f"[14:{i:02}] Ana asked again.\n" for i in range(30)),
    ),
    bad("degenerate", "one word for ever", "Ana moved to " + "Oslo " * 120),
    bad(
        "degenerate",
        "one letter for ever",
        "Ana moved to Oslooooooooooooooooooooooooooooooooooooooooooooooooo",
    ),
    bad("degenerate", "laughing", "## 2026-02-16\nAna said " + "ha" * 80),
    bad(
        "degenerate",
        "a loop of three sentences",
        _GOOD_START + "Ana asked. Henrik said no. Jonas is ill. " * 25,
    ),
    bad(
        "degenerate", "the whole note twice over", (_GOOD_START + "Ana cycles and needs no tram card.\n") * 3
    ),
    bad("degenerate", "a Chinese loop", "小雨搬到了杭州。" * 30, CHINESE),
    bad(
        "degenerate",
        "in prose",
        "Ana moved to Oslo and likes it there very much indeed. " * 12,
        format="prose",
    ),
    bad("echo", "the conversation itself", ENGLISH),
    bad("echo", "the conversation, stamped", "\n".join(f"[14:02] {line}" for line in ENGLISH.splitlines())),
    bad("echo", "the conversation, as prose", ENGLISH, format="prose"),
    bad("echo", "most of the conversation", "## 2026-02-16\n" + ENGLISH[: int(len(ENGLISH) * 0.8)] + "."),
    bad("echo", "the prompt", PROMPT, prompt_text=PROMPT),
    bad("echo", "rules, then a note", PROMPT[:600] + "\n" + _GOOD_START, prompt_text=PROMPT),
    bad(
        "too long", "chatter", " ".join(f"Word{i} and more of number {i * 7};" for i in range(400)) + " end."
    ),
    bad("too long", "megabytes", "Ana said something new. " * 400_000),
    bad(
        "too long",
        "longer than two words",
        "Ana greeted the assistant " + ", ".join(map(str, range(60))),
        SHORT,
    ),
    bad("unparseable", "symbols", "{}[]<>|~^%$#@!?;:=+*&" * 8),
    bad(
        "unparseable",
        "replacement characters",
        "Ana \ufffd\ufffd\ufffd moved \ufffd\ufffd to \ufffd\ufffd\ufffd",
    ),
    bad("unparseable", "JSON", '{"observations": [{"date": "2026-02-16", "text": "Ana moved to Oslo"}]}'),
    bad("unparseable", "a JSON list", '[{"priority": "IMPORTANT", "text": "Ana moved"}]'),
    bad("unparseable", "an error page", "<html><body><h1>502 Bad Gateway</h1></body></html>"),
    bad("unparseable", "base64", "QW5hIG1vdmVkIHRvIE9zbG8gbGFzdCB3ZWVr" * 14 + "Zq81xQ"),
    bad(
        "unparseable",
        "an answer to the user",
        "Sure, I'll write to the furniture shop right away! Anything else?",
    ),
    bad("unparseable", "a greeting", "Hello! How can I help you today?"),
    bad("unparseable", "an answer in Chinese", "您好！我已经帮您发了邮件，请问还有什么需要？", CHINESE),
    bad("wrong language", "English for Chinese", _GOOD_START, CHINESE * 3),
    bad("wrong language", "English for Japanese", "Aoi moved to Tokyo, the rent is due on Friday.", JAPANESE),
    bad("wrong language", "English for Korean", "Jimin moved to Seoul and wants the deposit paid.", KOREAN),
    bad(
        "wrong language", "English for Russian", "Anya moved to Kazan; the launch is on Monday now.", RUSSIAN
    ),
    bad(
        "wrong language",
        "Chinese for Japanese",
        "葵上周从大阪搬到了东京，房租九万二千元，房东希望周五之前收到押金。",
        JAPANESE,
    ),
    bad(
        "wrong language",
        "Chinese for English",
        "安娜上周搬到了奥斯陆，房租一万六千五百，部署失败后已修复，上线改到周一。",
    ),
    bad("wrong language", "Russian for English", "Аня переехала в Осло, запуск перенесён на понедельник."),
    bad(
        "wrong language",
        "English for German",
        "Ana moved to Oslo and the rent is due. She has a landlord that is called Henrik; it was agreed "
        "that he will have the deposit. The deploy was not a success but it is now online, and the launch is "
        "on Monday.",
        GERMAN * 2,
    ),
    bad(
        "wrong language",
        "prose in English for Chinese",
        "Xiaoyu moved to Hangzhou and the deploy was fixed by the assistant.",
        CHINESE,
        format="prose",
    ),
    bad("lost critical", "both", "## 2026-02-17\nAna moved to Oslo.", NOTES, must_keep=CRITICAL),
    bad(
        "lost critical",
        "one of two",
        "## 2026-02-17\nCRITICAL Ana is allergic to penicillin\nAna moved to Oslo",
        NOTES,
        must_keep=CRITICAL,
    ),
    bad(
        "lost critical",
        "in other words",
        "## 2026-02-16\nCRITICAL Deploy failed as DATABASE_URL was not set; it is a secret now\n"
        "CRITICAL Ana is allergic to penicillin",
        NOTES,
        must_keep=CRITICAL,
    ),
    bad(
        "lost critical",
        "a changed value",
        "CRITICAL Deploy failed: DATABASE_URI missing; fixed by setting it as a secret, never in fly.toml\n"
        "CRITICAL Ana is allergic to penicillin",
        NOTES,
        must_keep=CRITICAL,
    ),
    bad(
        "invented values",
        "a path nobody named",
        "Ana moved to Oslo; see /etc/passwd.",
    ),
]


def good(name: str, reply: str, source: str = ENGLISH, **asked: Any) -> Case:
    return Case(name, reply, source, "", asked)


GOOD = [
    good("as asked", _GOOD_START),
    good(
        "with times",
        "## 2026-02-16\n[14:02] IMPORTANT Ana moved to Oslo (2026-02-09)\n[14:05] CRITICAL Deploy failed",
    ),
    good("with values", _GOOD_START + "Values: 88-1431 · v2.3.1 · NOK 49,500"),
    good("one line", "Ana moved to Oslo last week (2026-02-09)"),
    good("a few words", "Ana: moved to Oslo"),
    good("one word", "Greetings", SHORT),
    good("in English, of a talk in Chinese", "The user told the assistant about a move", CHINESE),
    good("a note of a greeting", "## 2026-02-16\nAna greeted the assistant", SHORT),
    good("in a code fence", "```markdown\n" + _GOOD_START + "```"),
    good("in an unclosed fence", "```\n" + _GOOD_START),
    good("after a preamble", "Here are the observations:\n\n" + _GOOD_START),
    good("after a courtesy", "Sure! Here's the note for the messages:\n" + _GOOD_START),
    good("before an offer", _GOOD_START + "\nLet me know if you would like more detail!"),
    good("after thinking", "<think>\nWhat matters? The move.\n</think>\n" + _GOOD_START),
    good("after half a tag", "The move matters most.\n</think>\n" + _GOOD_START),
    good(
        "after an apology",
        "I'm sorry, I can't include the phone number, but the rest follows.\n" + _GOOD_START,
    ),
    good(
        "bullets", "- [14:02] IMPORTANT: Ana moved to Oslo\n- [14:05] CRITICAL: Deploy failed, secret missing"
    ),
    good(
        "bold", "**2026-02-16**\n- **[14:02]** **IMPORTANT** Ana moved to Oslo\n- **CRITICAL**: Deploy failed"
    ),
    good(
        "emoji",
        "Date: 2026-02-16\n* 🔴 (14:05) Deploy failed: DATABASE_URL\n* 🟡 Ana moved to Oslo\n* 🟢 Ana cycles",
    ),
    good(
        "numbered",
        "1. Ana moved to Oslo\n2. Go-live was Friday, now Monday 2026-02-23\n3. Ana prefers e-mail",
    ),
    good("a table", "| Time | Priority | Text |\n|---|---|---|\n| 14:02 | IMPORTANT | Ana moved to Oslo |"),
    good(
        "by topic", "### Move\n- Ana moved to Oslo\n### Deploy\n- Failed on DATABASE_URL; fixed by the secret"
    ),
    good("by priority", "### CRITICAL\n- Deploy failed\n### IMPORTANT\n- Ana moved to Oslo"),
    good(
        "other dates",
        "## 2026/02/16 (Monday)\nAna moved to Oslo\n## February 17, 2026\nAna asked for a reminder",
    ),
    good(
        "ends with a path",
        "Secrets must never stand in fly.toml\nHealth check: https://api.example.com/healthz",
    ),
    good("ends with a version", "Released v2.3.1"),
    # Words of the model's own that words of the source begin with.
    good("ends with another word", "Ana sent a photo", "Ana: I love photography, look at this one!"),
    good("ends with another form of a word", "A tram card: no need"),
    good("ends with the singular", "Ana handed over the key", "Ana: I handed over all the keys."),
    good("ends with a word twice", "Ana walks, likes a walk", "Ana: I was out on a walking tour."),
    good("ends with part of a compound", "Ana schickte das Foto", "Ana: Hier, von meinem Fotoapparat."),
    good("ends with a stem", "Ayşe yeni bir ev", "Ayşe: Yeni evimizde büyük bir bahçemiz var."),
    good("ends with a Thai word", "อานาย้ายไปออสโล", "อานา: ฉันย้ายไปออสโลเมื่อสัปดาห์ที่แล้ว ออสโลสวยมาก"),
    good("ends with a particle", "Ana does not want to log in\nThe landlord is who she sends the deposit to"),
    good("ends with a question", "Ana asked whether order 88-1431 was sent?"),
    good("ends with a quotation", 'Ana: "never into fly.toml, that file is public"'),
    good(
        "says sorry in a line", "## 2026-02-16\n[14:02] Ana was sorry that she cannot come\nAna moved to Oslo"
    ),
    good(
        "about a refusal", "Ana: I'm sorry was the landlord's only answer; Henrik cannot wait beyond Friday"
    ),
    good("about nothing", "Ana needs nothing more from the shop than a date"),
    good(
        "about a language model",
        "Assistant said that as an AI it cannot phone the shop; Ana prefers e-mail anyway",
    ),
    good(
        "similar lines",
        "\n".join(f"Ana asked shop {n} for its price: {n}49 kr" for n in range(1, 9)),
        "".join(f"Ana: I asked shop {n} what they charge, and it is {n}49 kr.\n" for n in range(1, 9)),
    ),
    good("many paths", f"Changed {_PATHS}", f"tool git: M {_PATHS}\n" + TOOLS),
    good(
        "tool work",
        "Tests failed at src/shop/cut.py:88 (IndexError); fixed, 42 passed; commit 9f2c1ab on fix/cut",
        TOOLS,
    ),
    good(
        "tool work with code",
        "`safe_cut` checked `at < len(messages)` too late; **kwargs are untouched",
        TOOLS,
    ),
    good(
        "a masked value and a rule",
        "Card ---------------- 4242 [secret] 0000000000000000000000000000 was declined",
        "Ana: My card ---------------- 4242 0000000000000000000000000000 was declined",
    ),
    good(
        "prose",
        "Ana moved to Oslo. The deploy failed and was fixed. Go-live is on Monday now.",
        format="prose",
    ),
    good("one sentence of prose", "Ana moved to Oslo and put the go-live off to Monday", format="prose"),
    good("prose in lines", "Ana moved to Oslo. The deploy failed, and the secret was set.", format="lines"),
    good("lines for prose", "- Ana moved to Oslo.\n- The go-live is on Monday.", format="prose"),
    good(
        "Chinese",
        "## 2026-02-16\n重要 小雨上周从上海搬到杭州（2026-02-09），房租五千八百元，押金周五前付",
        CHINESE,
    ),
    good(
        "Chinese with English names",
        "小雨：deploy 失败，因 DATABASE_URL 未设置；已写入 secrets，版本 v2.3.1",
        CHINESE + "助手：DATABASE_URL 已经写入 secrets，版本是 v2.3.1。",
    ),
    good(
        "Japanese",
        "## 2026-02-16\nIMPORTANT あおいは先週、大阪から東京へ引っ越し。家賃は九万二千円",
        JAPANESE,
    ),
    good("Japanese, mostly Han", "公開日：金曜日→月曜日に変更、健さん病気のため。敷金：金曜日期限", JAPANESE),
    good("Korean", "지민: 부산에서 서울로 이사, 월세 팔십만 원, 보증금은 금요일까지", KOREAN),
    good("Russian", "ВАЖНО Аня переехала в Казань; запуск был в пятницу, теперь в понедельник", RUSSIAN),
    good(
        "German", "WICHTIG Ana ist nach Oslo gezogen; Vermieter Henrik will die Kaution vor Freitag", GERMAN
    ),
    good(
        "names of another script", "Ana met 王小明 and Юрий in Oslo", ENGLISH + "Ana: I met 王小明 and Юрий."
    ),
    good(
        "English about tools in Chinese",
        "pytest: 42 passed; fix/cut; DATABASE_URL",
        CHINESE + "工具：pytest: 42 passed; fix/cut; DATABASE_URL",
    ),
    good(
        "a reflection",
        "CRITICAL Ana is allergic to penicillin\n" + NOTES.splitlines()[1],
        NOTES,
        must_keep=CRITICAL,
    ),
    good(
        "a reflection that lost the word CRITICAL",
        f"## 2026-02-16\n- {CRITICAL[0]}.\n- **Ana is allergic to penicillin**, says Ana",
        NOTES,
        must_keep=CRITICAL,
    ),
]
