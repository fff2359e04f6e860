"""Short conversations with the notes that an honest model wrote of them: (source, notes so far, reply).

Each source has the heading of its days, as the judge is given it.
"""

from __future__ import annotations

CONVERSATIONS: dict[str, tuple[str, str, str]] = {
    "a move and a trip": (
        """\
## 2024-03-11
[09:12] user Lea: We finally moved last weekend, to Trondheim! The boxes are everywhere.
[09:13] assistant: Congratulations, Lea. How is the new flat?
[09:14] user Lea: Bigger than the one in Moss, twelve thousand kroner. Jonas starts at the shipyard tomorrow.
[09:15] user Lea: And next Friday we drive to my sister Ingrid in Oppdal, for three days.
## 2024-03-19
[18:40] user Lea: Back since yesterday. Ingrid said never to buy a house there, because the road floods.
[18:41] assistant: Noted. Shall I drop the search for houses in Oppdal?
[18:42] user Lea: Yes, please. We keep looking in Trondheim, up to 4.2 million.
""",
        "## 2024-02-28\nIMPORTANT Lea and Jonas look for a house in Oppdal, up to 3.9 million",
        """\
## 2024-03-11
IMPORTANT Lea and Jonas moved to Trondheim last weekend (2024-03-09); rent 12,000 kroner; was Moss
IMPORTANT Jonas starts at the shipyard tomorrow (2024-03-12)
Lea intends to visit her sister Ingrid in Oppdal next Friday (2024-03-22) for 3 days
## 2024-03-19
IMPORTANT Ingrid advised Lea never to buy a house in Oppdal, because the road floods
IMPORTANT House search: was Oppdal up to 3.9 million, now Trondheim up to 4.2 million
Lea is back since yesterday (2024-03-18)
""",
    ),
    "health and age": (
        """\
## 2025-11-03
[20:01] user Marek: I turned thirty four last Tuesday. My mother has had diabetes since I was a child.
[20:02] assistant: Happy belated birthday! How do you feel about it?
[20:03] user Marek: Fine. I quit smoking two years ago and I run ten kilometres every Sunday now.
[20:04] user Marek: Dr. Novak wants to see me in three weeks, because my blood pressure was 150 over 95.
""",
        "",
        """\
## 2025-11-03
IMPORTANT Marek turned 34 last Tuesday (2025-10-28)
Marek's mother has diabetes, since he was a child
IMPORTANT Marek quit smoking 2 years ago, in 2023; runs 10 kilometres every Sunday
CRITICAL Marek's blood pressure was 150 over 95; Dr. Novak wants to see him in three weeks (2025-11-24)
""",
    ),
    "a deployment": (
        """\
## 2026-02-16
[14:02] user: Deploy failed again this morning, the release command exited with 1.
[14:03] assistant: The log says DATABASE_URL is not set.
→ fly({"command": "secrets set DATABASE_URL"})
← fly: Secrets are staged for the first deployment. Release v2.3.1 created at 14:05
[14:06] assistant: Fixed: the secret is set and v2.3.1 is out. The health check answers 200.
[14:07] user: Great. Move the go-live from Friday to Monday the 23rd, Jonas is ill.
""",
        "## 2026-02-12\nIMPORTANT Go-live is on Friday 2026-02-20; order 88-1431 waits for it",
        """\
## 2026-02-16
CRITICAL Deploy failed: DATABASE_URL was not set; fixed by setting the secret, v2.3.1 is out, health check 200
IMPORTANT Go-live: was Friday 2026-02-20, now Monday (2026-02-23), Jonas is ill; order 88-1431 waits
""",
    ),
    "a long friendship": (
        """\
## 2023-08-14
[17:30] assistant Nora: How long have you two known each other?
[17:31] user Tom: Since university, fifteen years. We met on a trip to Lisbon in the summer of '08.
[17:32] user Tom: [shares a photo of two men on a red tram] That's us, a week ago, same tram!
[17:33] assistant Nora: Lovely. Will Sam move to Porto?
[17:34] user Tom: He leaves at the end of the month, on the 31st. I told him to rent, prices fall in winter.
""",
        "",
        """\
## 2023-08-14
IMPORTANT Tom and Sam: friends since university, 15 years, since 2008; met on a trip to Lisbon (summer 2008)
Tom and Sam rode the same red tram again a week ago (2023-08-07)
IMPORTANT Sam moves to Porto (2023-08-31); Tom advised him to rent, prices fall in winter
""",
    ),
    "in Chinese": (
        """\
## 2026-02-16
[09:00] user 小雨: 我上周五从上海搬到了杭州，房租五千八百元，房东姓李。
[09:01] assistant: 恭喜！押金什么时候交？
[09:02] user 小雨: 后天交，两个月房租。妈妈说这里太贵了，劝我别续租。
""",
        "",
        """\
## 2026-02-16
IMPORTANT 小雨上周五从上海搬到杭州 (2026-02-13)，房租 5800 元，房东姓李
IMPORTANT 小雨后天交押金 (2026-02-18)，两个月房租
小雨的妈妈劝她别续租，因为太贵
""",
    ),
    "in German": (
        """\
## 2026-02-16
[09:00] user Ana: Gestern sind fünfundzwanzig Gäste gekommen, und in zwei Wochen ziehen wir nach Oslo.
[09:01] assistant: Schön! Wie hoch ist die Miete?
[09:02] user Ana: 16.500 Kronen. Henrik hat gesagt, wir sollen die Kaution nicht bar bezahlen.
""",
        "",
        """\
## 2026-02-16
IMPORTANT Ana: gestern (2026-02-15) kamen 25 Gäste
IMPORTANT Ana zieht in zwei Wochen (2026-03-02) nach Oslo, Miete 16.500 Kronen
Henrik rät Ana, die Kaution nicht bar zu bezahlen
""",
    ),
}
