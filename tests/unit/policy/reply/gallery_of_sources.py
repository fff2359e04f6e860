"""Conversations and notes that the replies of the gallery are about."""

ENGLISH = """\
Ana: Hi! Quick update before lunch. I moved to Oslo last week, the flat is on Thereses gate 14 and the
rent is
NOK 16,500 a month. The landlord is called Henrik and he wants the deposit (NOK 49,500) before Friday.
assistant: Congratulations on the move! Shall I put the deposit into your calendar?
Ana: Yes please. Also, the deploy failed again this morning, fly says the release command exited with 1.
assistant: I'll look at the logs. The release command runs the migrations; the log says DATABASE_URL is
not set.
I can set it from the staging secret, or you can put it into fly.toml yourself, which would you rather do?
Ana: Put it into the secrets please, never into fly.toml, that file is public. And we said we'd go live on
Friday,
but let's make that Monday the 23rd, because Jonas is ill and nobody else can watch the payments.
assistant: Done: the secret is set, release v2.3.1 is out and the health check at
https://api.example.com/healthz
answers 200. I have moved the go-live to Monday 2026-02-23 and told the channel that Jonas is ill.
Ana: Great. One more thing: order 88-1431 from the furniture shop still has not come, it cost me 1,240.50
euros. Can
you ask them where it is? I prefer that you write to them by e-mail, support@moebel.example.com, I hate
phone calls.
assistant: I have written to support@moebel.example.com about order 88-1431 and asked for a date. I will
tell you when
they answer. Do you want me to look for a tram card in the meantime, since you commute to Nydalen now?
Ana: Not needed, I cycle. But do remind me on Thursday evening to call my sister Marta about the keys of
the old flat.
assistant: Noted, I will remind you on Thursday at 19:00.
"""
GERMAN = """\
Ana: Ich bin letzte Woche nach Oslo gezogen, die Wohnung ist in der Thereses gate 14 und die Miete beträgt
16.500 NOK.
Assistent: Glückwunsch zum Umzug! Soll ich die Kaution für dich in den Kalender eintragen?
Ana: Ja, bitte. Der Vermieter heißt Henrik und er möchte die Kaution vor Freitag haben. Ich mag keine
Anrufe, schreib
ihm bitte eine E-Mail. Und das Deployment ist heute früh wieder fehlgeschlagen, weil die Variable nicht
gesetzt war.
Assistent: Ich habe die Variable gesetzt und die neue Version ist jetzt online. Der Termin ist für Montag
eingetragen.
"""
CHINESE = """\
小雨：我上周从上海搬到了杭州，新公寓在西湖区文三路，房租每个月五千八百元，房东姓李，他希望周五之前收到押金。
助手：恭喜搬家！需要我把押金的事情记到日历里吗？
小雨：好的。另外今天早上的部署又失败了，日志说数据库地址没有设置，请你放到密钥里，不要写进配置文件，
因为那个文件是公开的。
助手：已经设置好了，新版本二点三点一已经上线，健康检查正常。上线时间从周五改到下周一，因为建国生病了，
没有人看支付。
小雨：谢谢。还有，家具店的订单一直没有送到，花了一千二百元，请你发邮件问问他们，我不喜欢打电话。
"""
JAPANESE = """\
あおい：先週、大阪から東京に引っ越しました。新しい部屋は中野区で、家賃は九万二千円です。
大家さんは金曜日までに敷金がほしいそうです。
アシスタント：引っ越しおめでとうございます。敷金の件をカレンダーに入れておきましょうか。
あおい：はい、お願いします。それから今朝のデプロイがまた失敗しました。
データベースの設定がないと書いてあります。
アシスタント：設定を追加して、新しいバージョンを公開しました。公開日は金曜日から月曜日に変更しました。
健さんが病気だからです。
あおい：ありがとう。家具の注文がまだ届いていないので、メールで聞いてください。電話は苦手なんです。
"""
KOREAN = """\
지민: 지난주에 부산에서 서울로 이사했어요. 새 집은 마포구에 있고 월세는 팔십만 원이에요. 집주인이
금요일까지 보증금을 달라고 해요.
어시스턴트: 이사 축하드려요! 보증금 일정을 달력에 넣어 드릴까요?
지민: 네, 부탁해요. 그리고 오늘 아침 배포가 또 실패했어요. 데이터베이스 주소가 설정되지 않았다고 나와요.
어시스턴트: 설정을 추가했고 새 버전이 배포되었어요. 공개일은 금요일에서 월요일로 바꿨어요. 민수 씨가
아프기 때문이에요.
"""
RUSSIAN = """\
Аня: На прошлой неделе я переехала из Москвы в Казань, квартира на улице Баумана, аренда тридцать тысяч
рублей в месяц.
Помощник: Поздравляю с переездом! Добавить залог в календарь?
Аня: Да, пожалуйста. Хозяин хочет получить залог до пятницы. И сегодня утром снова не прошёл деплой, не
задана переменная.
Помощник: Переменная задана, новая версия работает. Запуск перенесён с пятницы на понедельник, потому что
Иван болеет.
"""
TOOLS = """\
assistant: → shell({"command": "pytest -q tests/unit/test_cut.py"})
tool shell: FAILED tests/unit/test_cut.py::test_pairs_stay_together - AssertionError: assert 3 == 4
src/shop/cut.py:88: in safe_cut
    while at > 0 and messages[at].role == "tool":
E   IndexError: list index out of range
1 failed, 41 passed in 2.31s
assistant: The index runs past the end when the last message is a tool result. → edit({"path":
"src/shop/cut.py", "line": 88})
tool edit: ok
assistant: → shell({"command": "pytest -q"})
tool shell: 42 passed in 2.40s
assistant: Fixed: src/shop/cut.py:88 now checks at < len(messages) first. Committed as 9f2c1ab on branch
fix/cut.
"""
SHORT = "Ana: hi\nassistant: Hello! How can I help?"
NOTES = """\
## 2026-02-16
CRITICAL Deploy failed: DATABASE_URL missing; fixed by setting it as a secret, never in fly.toml
IMPORTANT Ana moved to Oslo (2026-02-09), Thereses gate 14, rent NOK 16,500, landlord Henrik
Ana cycles to Nydalen and needs no tram card
## 2026-02-17
CRITICAL Ana is allergic to penicillin
IMPORTANT Go-live was Friday, now Monday 2026-02-23, because Jonas is ill
Ana asked whether order 88-1431 (€1,240.50) was sent; the shop has not answered
Ana said that she likes the new desk
Values: v2.3.1 · https://api.example.com/healthz
"""
CRITICAL = (
    "Deploy failed: DATABASE_URL missing; fixed by setting it as a secret, never in fly.toml",
    "CRITICAL Ana is allergic to penicillin",
)
