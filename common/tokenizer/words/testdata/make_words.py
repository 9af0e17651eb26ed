#!/usr/bin/env python3
"""Prints words.txt: texts and how the published rule of GPT-2 cuts them, by Python's `regex` (python3-regex).

A line is a text's words, each as the hexadecimal digits of its UTF-8, with spaces between.
"""
import random
import unicodedata

import regex

RULE = regex.compile(r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")

TEXTS = [
    "I'll see  2 dogs!",
    "'s'sx 'S 'T we're they'VE i'm he'd can't''ll",
    "  leading and trailing  ",
    "\n\nlines\n  and\ttabs\r\n\r\n x",
    "a\u00a0b\u2003c\u3000 d\u0085e\u200bf",
    "na\u00efve caf\u00e9 \u4f60\u597d\u4e16\u754c \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947",
    "\u00bd \u2167 \u0663\u0664 x\u00b2 12345abc 3.14",
    "\U0001f600\U0001f601 \U0001f468\u200d\U0001f469 e\u0301",
    " ", "   ", "\n", " \n", "\n ", "a ", " a", "a  ", "a \n b", "'", "''", " '", " 's",
    "\x1c\x1d\x1e\x1f x\x0b\x0cy \x00\x01",
]


def main():
    random.seed(5)
    known = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    common = list("ab'sdtrevml 012 .,!?\n\t ") + ["\u00e9", "\u00a0", "\u2028", "\u0663"]
    texts = list(TEXTS)
    for _ in range(300):
        texts.append("".join(random.choice(common) for _ in range(random.randint(1, 30))))
    for _ in range(300):
        texts.append("".join(random.choice(random.choice([known, common])) for _ in range(random.randint(1, 20))))
    for text in texts:
        words = RULE.findall(text)
        assert "".join(words) == text
        print(" ".join(word.encode().hex() for word in words))


main()
