"""Random templates and values from a grammar."""

import random

NAMES = ["a", "b", "xs", "m", "s", "gone", "n", "p"]
TEXTS = ["", "x", " y ", "\n z", "é😀", "it's", "A-b c", "\"q\"", "a,b"]
SPACES = ["", "", " ", "\n", "  \n", " \n  ", "t", "\n\n x"]


class Generator:
    """Draws from one random sequence, so a seed always makes the same cases."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self, depth=0):
        kind = self.random.randrange(8 if depth < 2 else 6)
        if kind == 0:
            return self.random.randrange(-9, 30)
        if kind == 1:
            return self.random.choice([0.5, -1.25, 3.0, 1e20])
        if kind == 2:
            return self.random.choice([True, False, None])
        if kind < 6:
            return self.random.choice(TEXTS)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice("abknr"): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def values(self):
        return {
            "a": self.value(), "b": self.value(), "n": self.random.randrange(5), "s": self.random.choice(TEXTS),
            "xs": [self.value(1) for _ in range(self.random.randrange(5))],
            "m": {key: self.value(1) for key in self.random.sample("abknr", 3)},
        }

    def literal(self):
        return self.random.choice(
            ["0", "1", "-2", "2.5", "'x'", "'a b'", "\"it's\"", "true", "none", "[]", "[1, 'x', 2]", "{'a': 1, 'b': [2]}", "(1, 2)"])

    def expression(self, depth=0):
        if depth > 3 or self.random.random() < 0.2:
            return self.random.choice([self.random.choice(NAMES), self.random.choice(NAMES), self.literal()])
        inner = lambda: self.expression(depth + 1)  # noqa: E731
        kind = self.random.randrange(12)
        if kind == 0:
            return f"{inner()} {self.random.choice(['+', '-', '*', '//', '/'])} {inner()}"
        if kind in (1, 2):
            return f"{inner()} ~ {inner()}"
        if kind == 3:
            return f"{inner()} {self.random.choice(['==', '!=', '<', '>=', 'in', 'not in'])} {inner()}"
        if kind == 4:
            return f"{inner()} {self.random.choice(['and', 'or'])} {self.random.choice(['', 'not '])}{inner()}"
        if kind == 5:
            return f"({inner()} if {inner()} else {inner()})"
        if kind == 6:
            if self.random.random() < 0.5:
                return f"({inner()})[{self.random.choice(['0', '-1', '7', chr(39) + 'a' + chr(39)])}]"
            # Jinja takes slices of constants that have none for undefined, where it computes them ahead.
            sliced = self.random.choice(["xs", "s", f"(({inner()}) | string)"])
            return f"{sliced}[{self.random.choice(['1:', '::-1', ':-1', '::2', '-2:', '3:0:-1'])}]"
        if kind == 7:
            return f"({inner()}).{self.random.choice(['a', 'b', 'k'])}"
        if kind == 8:
            test = self.random.choice(["defined", "none", "string", "mapping", "iterable", "number", "boolean", "sequence", "true"])
            # In parentheses, since Jinja takes a word that follows for the test's argument.
            return f"(({inner()}) is {self.random.choice(['', 'not '])}{test})"
        if kind == 9:
            call = self.random.choice(["strip()", "split()", "split('x')", "startswith('x')", "replace('x', 'yy')", "rstrip('x ')"])
            return f"(({inner()}) | string).{call}"
        chosen = self.random.choice(
            ["trim", "length", "tojson", "string", "list", "first", "last", "join('-')", "default('D')", "default('D', true)",
             "replace('x', 'z')", "int", "tojson(indent=2)", "select | list", "map('string') | list", "reject('none') | list"])
        return f"({inner()}) | {chosen}"

    def tag(self, inside):
        return "{%" + self.random.choice(["", "", "-", "+"]) + " " + inside + " " + self.random.choice(["", "", "-", "+"]) + "%}"

    def block(self, depth=0):
        parts = []
        for _ in range(self.random.randrange(1, 4)):
            parts.append(self.random.choice(SPACES))
            kind = self.random.randrange(9 if depth < 2 else 4)
            if kind < 3:
                parts.append("{{" + self.random.choice(["", "-"]) + " " + self.expression() + " " + self.random.choice(["", "-"]) + "}}")
            elif kind == 3:
                parts.append("{#" + self.random.choice(["", "-"]) + " note " + self.random.choice(["", "-"]) + "#}")
            elif kind == 4:
                parts += [self.tag("if " + self.expression(1)), self.block(depth + 1), self.tag("else"), self.block(depth + 1),
                          self.tag("endif")]
            elif kind == 5:
                parts += [self.tag("for x in xs" + self.random.choice(["", " if x", " if x is string"])), self.block(depth + 1),
                          "{{ loop.index }}{{ x }}", self.tag("endfor")]
            elif kind == 6:
                parts += [self.tag(f"set p = {self.expression(1)}"), "{{ p }}"]
            elif kind == 7:
                # Not one of NAMES: within such a block, Jinja takes the name for undefined.
                parts += [self.tag("set t"), self.block(depth + 1), self.tag("endset"), "{{ t }}"]
            else:
                parts += [self.tag("for k, v in m.items()"), "{{ k }}:{{ v }}", self.random.choice(SPACES), self.tag("endfor")]
        parts.append(self.random.choice(SPACES))
        return "".join(parts)


def cases(seed, count):
    generator = Generator(seed)
    return [(generator.block(), generator.values()) for _ in range(count)]
