// Encodes texts with npm's @anush008/tokenizers, the binding of Hugging Face's tokenizers, whose
// module is the first argument and the tokenizer.json the second: a text as JSON on a line in, a
// line of JSON out: {"ids", "text"}.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { Tokenizer } = createRequire(import.meta.url)(process.argv[2]);
const tokenizer = Tokenizer.fromFile(process.argv[3]);
for await (const line of createInterface({ input: process.stdin })) {
  const ids = Array.from((await tokenizer.encode(JSON.parse(line))).getIds());
  console.log(JSON.stringify({ ids, text: await tokenizer.decode(ids, false) }));
}
