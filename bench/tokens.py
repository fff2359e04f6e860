"""How fast, and how near to cl100k, the estimators count each kind of text: `python bench/tokens.py`."""

from __future__ import annotations

import json
import time
from pathlib import Path

from onlooker.policy.tokens import Estimator, estimator

SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "tokens"
ROUNDS = 50


def microseconds(count: Estimator, text: str) -> float:
    """CPU time per 1,000 characters, of long messages. Counts are cached, so no two are alike."""
    page = (text * (4000 // len(text) + 1))[:4000]
    best = float("inf")
    for round in range(5):
        pages = [page[n:] + page[:n] for n in range(round * ROUNDS, (round + 1) * ROUNDS)]
        began = time.process_time()
        for one in pages:
            count.text(one)
        best = min(best, time.process_time() - began)
    return best / ROUNDS / len(page) * 1e9


def main() -> None:
    counts = [estimator(name) for name in ("default", "lango", "zora")]
    print(f"{'kind':14}{'chars':>7}{'cl100k':>8}" + "".join(f"{c.name:>10}{'µs/1k':>7}" for c in counts))
    for path in sorted(SAMPLES.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        texts: list[str] = [sample["text"] for sample in found]
        true = sum(sample["cl100k"] for sample in found)
        row = f"{path.stem:14}{sum(map(len, texts)):7}{true:8}"
        for count in counts:
            error = sum(count.text(t) for t in texts) / true - 1
            row += f"{error:+10.1%}{microseconds(count, ''.join(texts)):7.1f}"
        print(row)


if __name__ == "__main__":
    main()
