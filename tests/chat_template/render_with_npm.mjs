// Renders chats with npm's @huggingface/jinja, whose module is the first argument: a line of JSON
// in, {"template", "values"} and "now" in seconds, a line of JSON out: {"text"} or {"error"}.
import { createInterface } from "node:readline";

const { Template } = await import(process.argv[2]);
const SystemDate = Date;

for await (const line of createInterface({ input: process.stdin })) {
  const { template, values, now } = JSON.parse(line);
  // The package's strftime_now asks the clock.
  globalThis.Date = class extends SystemDate {
    constructor() {
      super(now * 1000);
    }
  };
  let answer;
  try {
    answer = { text: new Template(template).render(values) };
  } catch (error) {
    answer = { error: String(error.message) };
  }
  console.log(JSON.stringify(answer));
}
