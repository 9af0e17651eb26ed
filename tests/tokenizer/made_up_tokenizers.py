"""Small tokenizers with the rules of published ones, and texts that rules tell apart.

Vocabularies are learned here, from the texts themselves, so that merges are made of everything in them.
"""

import collections
import random

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
GPT2_BYTE_LEVEL = {**BYTE_LEVEL, "use_regex": True}
ENGLISH = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = (ENGLISH + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ENGLISH}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ENGLISH}?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
            r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
SPACE = "\u2581"

TEXTS = [
    "", " ", "   ", "Hello, world!", " Hello", "a  b   c", "x\ty\t\tz", "line\nline\n\nend\n", "a\r\nb\r\n\r\n", "  \n  x  ",
    "I'll DON'T we've THEY'RE it'S y'all'd've", "1 22 333 4444 1234567", "3.14e-10 0xFF", "x\u00b2 \u00bd \u2167 \u0663\u0664",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01 abc \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 12", "\ud55c\uad6d\uc5b4 \uc548\ub155", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e44\u0e17\u0e22", "caf\u00e9 cafe\u0301 \u212b q\u0307\u0323", "\ufb01 \uff21\uff42 \u2026 \u2122",
    "\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "a\u200bb\u00a0c\u3000d\u2028e", "mIxEd CamelCase SCREAMING_snake",
    "def f(x):\n    return x+1  # ok\n", "https://a.org/b?c=1&d=%20#e", "----====!!!!????", "a" * 80, " " * 70, "\n" * 9 + "x", "9" * 50,
    "<s>", "a<s>b</s> c", "<|x|> y", "z <|x|>  y", "<s", "</s></s>", "\x00\x01\x7f", "a\x00b", "\u0301x", "_ __ " + SPACE + "a" + SPACE,
    "'s 'S s' ''", "\"quoted\" (text) [x] {y}", "\u017f's K'\u017f", "\u180e\u0085", "Mr. O'Brien's '90s", "\u00c0\u00c9 \u1e9e\u00df", "\U00020000\U00020001",
    "end ", "end  ", "\ttab", "a-b_c.d/e\\f", "100% $5 \u20ac6", "\u300c\u5f15\u7528\u300d\u3001\u3002", "x\u0300\u0301y",
]


def texts():
    chance = random.Random(54)
    pieces = list("abcXYZ'sdltre 012.,!?\n\t ") + ["\u00e9", "\u4e2d", "\u0301", "\u3000", "\U0001f44d", "'LL", "  ", "\r\n", "<s>", "</s>", "<|x|>", SPACE]
    made = ["".join(chance.choice(pieces) for _ in range(chance.randint(1, 40))) for _ in range(60)]
    return TEXTS + made


def byte_characters():
    own = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    characters = {b: chr(b) for b in own}
    for number, byte in enumerate(b for b in range(256) if b not in characters):
        characters[byte] = chr(256 + number)
    return characters


def learned_merges(words, count):
    """The most frequent pairs of neighbours in lists of symbols, joined one after another."""
    words = [list(word) for word in words]
    merges = []
    for _ in range(count):
        pairs = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = ["".join(best)]
                i += 1
    return merges


def added(tokens, first, **options):
    return [{"id": first + i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True, **options} for i, token in enumerate(tokens)]


def tokenizer(model, added_tokens, **rules):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens, "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model, **rules}


def template(token, number):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def byte_level(pre_tokenizer, ignore_merges=False, extra=(), options=None, begins=False, **rules):
    characters = byte_characters()
    words = [[characters[b] for b in piece.encode()] for text in TEXTS for piece in text.replace(" ", "\n ").split("\n") if "<" not in piece]
    merges = learned_merges(words, 150)
    vocab = {}
    for token in list(characters.values()) + ["".join(pair) for pair in merges] + list(extra):
        vocab.setdefault(token, len(vocab))
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges, "vocab": vocab,
             "merges": [" ".join(pair) for pair in merges]}
    special = added(["<s>", "</s>", "<|x|>"], len(vocab), **(options or {}))
    if begins:
        rules["post_processor"] = template("<s>", len(vocab))
    return tokenizer(model, special, pre_tokenizer=pre_tokenizer, decoder=GPT2_BYTE_LEVEL, **rules)


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(*rules):
    return {"type": "Sequence", "pretokenizers": list(rules)}


def replace(text, content):
    return {"type": "Replace", "pattern": {"String": text}, "content": content}


def characters_bpe(fallback=True, **rules):
    words = [list(SPACE + word) for text in TEXTS for word in text.split(" ") if "<" not in word]
    merges = learned_merges(words, 150)
    vocab = {token: number for number, token in enumerate(["<unk>", "<s>", "</s>"])}
    if fallback:
        for byte in range(256):
            vocab[f"<0x{byte:02X}>"] = len(vocab)
    for token in sorted(set(SPACE + "abcdefghijklmnopqrstuvwxyzABCXYZ019.,!'\u00e9\u4e2d\n")) + ["".join(pair) for pair in merges]:
        vocab.setdefault(token, len(vocab))
    # Parts of what was merged that are no tokens yet.
    for pair in merges:
        for token in pair:
            vocab.setdefault(token, len(vocab))
    model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": fallback, "ignore_merges": False, "vocab": vocab, "merges": [" ".join(pair) for pair in merges]}
    decoder = {"type": "Sequence", "decoders": [replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return tokenizer(model, added(["<unk>", "<s>", "</s>"], 0), decoder=decoder, **rules)


def unigram(fallback, **rules):
    chance = random.Random(7)
    pieces = collections.Counter(word[:length] for text in TEXTS for word in (SPACE + part for part in text.split(" "))
                                 for length in range(1, min(len(word), 8) + 1) if "<" not in word)
    vocab = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0]]
    if fallback:
        vocab += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
    known = {piece for piece, _ in vocab}
    vocab += [[piece, -chance.uniform(2, 12)] for piece in sorted(pieces) if piece not in known]
    vocab += [[piece, -chance.uniform(8, 14)] for piece in "abcdefghijklmnop" if piece not in pieces]
    model = {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": fallback}
    decoder = {"type": "Sequence", "decoders": [replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}]}
    return tokenizer(model, added(["<s>", "</s>"], 1), decoder=decoder, **rules)


def metaspace(scheme, **options):
    return {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": scheme, "split": True, **options}


PREPENDED = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)]}

TOKENIZERS = {
    "gpt2": lambda: byte_level(GPT2_BYTE_LEVEL),
    "llama3": lambda: byte_level(sequence(split(LLAMA3), BYTE_LEVEL), ignore_merges=True, extra=["\u0120worlds", "\u0120abc"],
                                 begins=True),
    "qwen": lambda: byte_level(sequence(split(QWEN), BYTE_LEVEL), normalizer={"type": "NFC"}),
    "gpt4o": lambda: byte_level(sequence(split(GPT4O, "Removed", True), BYTE_LEVEL)),
    "deepseek": lambda: byte_level(sequence(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK), BYTE_LEVEL),
                                   normalizer={"type": "Sequence", "normalizers": []}),
    "smollm": lambda: byte_level(sequence({"type": "Digits", "individual_digits": True}, GPT2_BYTE_LEVEL)),
    "punctuation": lambda: byte_level(sequence({"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": False},
                                               split("[0-9][0-9][0-9]"), GPT2_BYTE_LEVEL)),
    "nfkc": lambda: byte_level(GPT2_BYTE_LEVEL, normalizer={"type": "NFKC"}, options={"normalized": True}),
    "prefixed": lambda: byte_level({**GPT2_BYTE_LEVEL, "add_prefix_space": True}, options={"rstrip": True}),
    "stripped": lambda: byte_level(GPT2_BYTE_LEVEL, options={"lstrip": True, "rstrip": True}),
    "llama2": lambda: characters_bpe(normalizer=PREPENDED, post_processor=template("<s>", 1)),
    "gemma": lambda: characters_bpe(normalizer=replace(" ", SPACE),
                                    pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}),
    "mistral": lambda: characters_bpe(pre_tokenizer=metaspace("first", split=False)),
    "unknown": lambda: characters_bpe(fallback=False, normalizer=PREPENDED),
    "unigram": lambda: unigram(False, pre_tokenizer=metaspace("always")),
    "unigram_bytes": lambda: unigram(True, normalizer=PREPENDED),
    "unigram_words": lambda: unigram(True, pre_tokenizer=sequence({"type": "WhitespaceSplit"}, metaspace("always"))),
}
