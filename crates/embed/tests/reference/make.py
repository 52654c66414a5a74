"""What others make of the test model: vectors, rankings and tokens, written beside this file.

An independent implementation computes them: sentence-transformers on torch, and the tokenizers library.
Run: pip install sentence-transformers && python make.py "$(../model)"
"""

import json
import random
import sys
from pathlib import Path

import sentence_transformers
import tokenizers
import torch
import transformers

FOLDER = Path(__file__).parent
MODEL = sys.argv[1]

ARTICLES = [
    "A toddler was hurt when the wheel of a stroller came off; the maker calls back 40,000 of them.",
    "The state senate passed a budget on Tuesday that raises the pay of teachers by four percent.",
    "Firefighters blame the battery of an electric scooter for the blaze that destroyed two flats.",
    "Heavy rain is expected on Thursday, with floods along the river and snow in the mountains.",
    "Contaminated lettuce has made 130 people in nine states ill, the health department says.",
    "The home team won in overtime after a goal from the halfway line.",
    "A space heater sold online may overheat; buyers should unplug it and ask for their money back.",
    "Shares fell on Monday as investors worried about interest rates.",
    "Two swimmers drowned in a hotel pool whose drain cover was missing.",
    "The museum opens a show of drawings that were thought to be lost.",
]
KEYWORDS = [
    "product recall",
    "child injury",
    "house fire",
    "food poisoning",
    "drowning",
    "weather",
    "politics",
    "sport",
]
TEXTS = [
    "",
    " ",
    "a",
    "\t\n\r\u00a0\u2003",
    "\u200b\u200d\ufeff",
    "Hello, world!",
    "HELLO, WORLD!",
    "hello world",
    "naïve café résumé Ångström",
    "nai\u0308ve cafe\u0301 re\u0301sume\u0301 A\u030angstro\u0308m",
    "İstanbul'da ışık; ΣΊΣΥΦΟΣ; Straße; ǅungla",
    "東京都は日本の首都です。",
    "北京是中华人民共和国的首都",
    "한국어 문장을 하나 씁니다",
    "مرحبا بالعالم، كيف حالك؟",
    "नमस्ते दुनिया",
    "สวัสดีชาวโลก",
    "I ❤️ 🦀 and 👩‍👩‍👧‍👦 and 🇩🇪",
    "[CLS] not special to you [SEP] but to the model [MASK] [PAD] [UNK]",
    "[sep] ## ##ing [ SEP ]",
    "http://example.com/a/b?c=d&e=%20f#g",
    "3.14159 -1e-9 1,000,000 $5 €7 50% §4 ½ ² ﬁ ﷺ",
    "pneumonoultramicroscopicsilicovolcanoconiosis and antidisestablishmentarianism",
    "x" * 100,
    "x" * 101,
    "word\x00with\x07control\x1fcharacters\ufffd",
    "one two three four five six seven eight nine ten " * 5,
    "A sentence of about average length that a newspaper would print on its second page.",
    "The quick brown fox jumps over the lazy dog. " * 40,
    "東" * 600,
    "unbelievably " * 400,
]


def nasty(number: int) -> list[str]:
    """Texts out of letters that tokenizers fall over, always the same ones."""
    chance = random.Random(4)
    letters = list("abcXYZ019 '-.,#[]\t\n\u0000\u0007\u00a0\u00ad\u0300\u0301\u0308\u0327\u0345\u034f")
    letters += list("ßẞıİſÅΩΣςσᾳǰŉﬃ\u0958\u09dc가힣ᄀ各\u1fbe\u2126\u212a\u212b⒜①\u3000、。「」\uf900\u2f800")
    letters += list("\u061c\u200b\u200e\u2028\u2029\u202e\u2060\ue000\ufeff\ufffd\U0001d15e\U0001f468\U0001f3fd")
    words = ["[SEP]", "[MASK]", "unaffable", "running", "##s", "x" * 99, "é" * 60, "don't"]
    pick = lambda: chance.choice(words) if chance.random() < 0.1 else chance.choice(letters)
    return ["".join(pick() for _ in range(chance.randint(1, 40))) for _ in range(number)]


def digest(numbers: list[int], so_far: int) -> int:
    """FNV-1a over the four bytes of each number, the lowest first."""
    for number in numbers:
        for byte in number.to_bytes(4, "little"):
            so_far = (so_far ^ byte) * 0x100000001B3 % 2**64
    return so_far


def digests_of_all_letters(tokenizer) -> list[str]:
    """For each 4,096 code points, a digest of the tokens of "aXb" with each of them as X."""
    found = []
    for block in range(0, 0x110000, 4096):
        letters = [chr(code) for code in range(block, block + 4096) if not 0xD800 <= code < 0xE000]
        so_far = 0xCBF29CE484222325
        for encoding in tokenizer.encode_batch([f"a{letter}b" for letter in letters]):
            so_far = digest(encoding.ids, so_far)
        found.append(f"{so_far:016x}")
    return found


def write(name: str, **parts) -> None:
    """One line for each entry, so that changes can be seen."""
    lines = []
    for key, value in parts.items():
        dump = lambda entry: json.dumps(entry, ensure_ascii=True, separators=(",", ":"))
        body = "[\n" + ",\n".join(map(dump, value)) + "\n]" if isinstance(value, list) else dump(value)
        lines.append(f"{json.dumps(key)}:{body}")
    (FOLDER / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


versions = {m.__name__: m.__version__ for m in (sentence_transformers, transformers, tokenizers, torch)}
model = sentence_transformers.SentenceTransformer(MODEL, device="cpu")
vectors = lambda texts: model.encode(texts, batch_size=1, normalize_embeddings=True)

entries = [
    {"text": text, "vector": [float(f"{x:.8f}") for x in vector]} for text, vector in zip(TEXTS, vectors(TEXTS))
]
articles = vectors(ARTICLES)
rankings = []
for keyword, vector in zip(KEYWORDS, vectors(KEYWORDS)):
    scores = articles @ vector
    order = sorted(range(len(ARTICLES)), key=lambda index: -scores[index])
    gaps = [scores[a] - scores[b] for a, b in zip(order, order[1:])]
    assert min(gaps) > 1e-4, f"the ranking for {keyword!r} is too close to be a test"
    rankings.append({"keyword": keyword, "order": order, "scores": [round(float(s), 6) for s in scores]})
write("vectors.json", made_with=versions, texts=entries, articles=ARTICLES, rankings=rankings)

tokenizer = tokenizers.Tokenizer.from_file(f"{MODEL}/tokenizer.json")
tokenizer.no_padding()
tokenizer.no_truncation()
letters = digests_of_all_letters(tokenizer)
tokenizer.enable_truncation(model.max_seq_length)
texts = TEXTS + nasty(300)
cut = [{"text": text, "tokens": encoding.ids} for text, encoding in zip(texts, tokenizer.encode_batch(texts))]
write("tokens.json", made_with=versions, texts=cut, letters=letters)
