#!/usr/bin/env python3
"""Golden values of caption cleaning and tokens, made with Python's re and Hugging Face's tokenizers.

    python data_tokens.py [FLICKR8K_FOLDER TOKENIZER_JSON]

Writes into crates/covmatch/tests/goldens:
  data_vocab.txt           a small vocabulary with BERT's special tokens
  data_tokens.json         strings with what cleaning and the tokenizer (with that vocabulary) make of them
  data_tokens_digest.json  FNV-1a of the token ids of all captions of Flickr8k, when its folder (with
                           dataset_flickr8k.json) and a BERT tokenizer.json are given. The captions are not written.
"""

import json
import pathlib
import re
import struct
import sys

from tokenizers import Tokenizer
from transformers import BertTokenizerFast

GOLDENS = pathlib.Path(__file__).resolve().parents[2] / "crates/covmatch/tests/goldens"

WORDS = """[PAD] [UNK] [CLS] [SEP] [MASK] a the dog cat runs run ##s ##ning ##n ##ing is two one men in park , ' - ? / & ! .
" ( ) * # : ; ~ naive cafe facade uber strasse strass ##e ss ss ##ss 中 文 字 日 本 語 東 京 0 1 2 3 ##0 ##1 ##2 ##3 sunglasses sun
##glasses 😀 ™ é ##é œ ο ##δ ##ο ##ς ##σ i ##̇ x ##x ##xx b ##b c d e f g h ##a ##c ##d ##f ##g ##h"""

STRINGS = [
    "",
    " ",
    "...",
    "\n\n",
    "A child in a pink dress is climbing up a set of stairs in an entry way .",
    "Two MEN running: one dog; the cat (runs) \"in\" a park!",
    "the dog's park - a/b & c, is 3?",
    "tab\there and  two  spaces   three",
    "a single\nnewline, two\n\nnewlines and an end\n",
    " \n a dog \n ",
    "no\u00a0break \u00a0 space and \u2003 em \u3000 wide",
    "information\x1cseparators\x1c\x1dhere \x1f",
    "naïve café façade über Straße STRASSE ẞ",
    "NAÏVE CAFÉ — “quotes” … ‘single’",
    "e\u0301 combining, i\u0307 dot, İstanbul ΟΔΟΣ ΟΔΟΣ.",
    "中文字 日本語 東京tower cat中dog",
    "한국어 한글 привет мир שלום مرحبا",
    "emoji 😀 dog😀cat 👨‍👩‍👧 🇫🇷 ™ ©",
    "control\x00char\x07acters\x7f and \u200b zero \u200d width \ufeff bom \ufffd",
    "soft\u00adhyphen e-mail@dog.com http://a.b/c?d=e",
    "[CLS] the [MASK] dog [SEP] [PAD] [UNK] [cls]",
    "x" * 100,
    "x" * 101,
    "x" * 1000 + " dog",
    "ab" * 49 + "é" * 3,
    "~!@#$%^&*()_+{}|:<>?`-=[]\\;',./",
    "0123 1 2 3 33 sunglasses runs running",
    "the dog " * 20,
    " ".join(f"w{i}" for i in range(31)),
    " ".join(["dog"] * 30) + " .",
    "ﬁne ﬂags ŒUVRE ǅ ª º ² ½ Ⅷ",
    "\u1680ogham\u1680\u1680two \u180e mongolian \u0085 next \u2028 line",
]
# longer than 512 tokens
LONG = "the dog runs in a park " * 200
BATCH = ["a dog runs", "", "the cat is in the park, running", "中文"]


def pre_caption(caption, max_words=30):
    """The cleaning of the retrieval protocol (BLIP and its descendants)."""
    caption = re.sub(r"([.!\"()*#:;~])", " ", caption.lower())
    caption = re.sub(r"\s{2,}", " ", caption)
    caption = caption.rstrip("\n")
    caption = caption.strip(" ")
    words = caption.split(" ")
    if len(words) > max_words:
        caption = " ".join(words[:max_words])
    return caption


def fnv1a64(data, h=0xCBF29CE484222325):
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def digest(sequences):
    """FNV-1a over each sequence's length and ids, as little-endian 32-bit integers."""
    h = fnv1a64(b"")
    for ids in sequences:
        h = fnv1a64(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids), h)
    return f"{h:016x}"


def small():
    words = list(dict.fromkeys(WORDS.split()))
    vocab = GOLDENS / "data_vocab.txt"
    vocab.write_text("\n".join(words) + "\n", encoding="utf-8")
    tokenizer = BertTokenizerFast(vocab=str(vocab), do_lower_case=True)
    assert tokenizer.vocab_size == len(words)

    def ids(text):
        return tokenizer(text, truncation=True, max_length=512)["input_ids"]

    rows = [{"text": s, "clean": pre_caption(s), "ids": ids(s), "clean_ids": ids(pre_caption(s))} for s in STRINGS]
    batch = tokenizer(BATCH, padding="longest", truncation=True, max_length=512)
    golden = {
        "strings": rows,
        "long": {"text": LONG, "ids": ids(LONG)},
        "batch": {"texts": BATCH, "ids": batch["input_ids"], "mask": batch["attention_mask"]},
    }
    path = GOLDENS / "data_tokens.json"
    path.write_text(json.dumps(golden, indent=None, ensure_ascii=True) + "\n")
    print(f"{path.name}: {len(rows)} strings, {path.stat().st_size / 1024:.0f} KB")


def flickr8k(folder, tokenizer_json):
    data = json.loads((pathlib.Path(folder) / "dataset_flickr8k.json").read_text())
    captions = [sentence["raw"] for image in data["images"] for sentence in image["sentences"]]
    tokenizer = Tokenizer.from_file(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)

    def encode(texts):
        return [encoding.ids for encoding in tokenizer.encode_batch(texts)]

    raw, cleaned = encode(captions), encode([pre_caption(c) for c in captions])
    golden = {
        "captions": len(captions),
        "tokens": sum(map(len, cleaned)),
        "raw": digest(raw),
        "cleaned": digest(cleaned),
    }
    path = GOLDENS / "data_tokens_digest.json"
    path.write_text(json.dumps(golden, indent=2) + "\n")
    print(path.name, golden)


if __name__ == "__main__":
    small()
    if len(sys.argv) == 3:
        flickr8k(*sys.argv[1:])
