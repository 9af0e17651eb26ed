// A job's log, by slot, with search.
import { api } from "./api.js";
import { h } from "./dom.js";
import { count, formatBytes, toNumber } from "./format.js";

const FIRST_LINES = 1000;
const MOST_LINES = 20000;
const SHOWN_LINES = 500;

// Returns the line's pieces [text, matches] around what was searched for, without regard to case.
export function splitMatches(line, search) {
  if (!search) return [[line, false]];
  const pieces = [], lower = line.toLowerCase(), wanted = search.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    pieces.push([line.slice(from, at), false], [line.slice(at, at + wanted.length), true]);
    from = at + wanted.length;
  }
  pieces.push([line.slice(from), false]);
  return pieces.filter(([text]) => text);
}

// Returns the line without what would colour it in a terminal.
export function withoutColours(line) {
  return line.replace(/\x1b\[[0-9;:]*m/g, "");
}

export class JobLog {
  constructor(job, onChange) {
    this.job = job;
    this.onChange = onChange;
    this.search = "";
    this.slot = "";
    this.clear();
  }

  clear() {
    this.lines = [];
    // The end of the text, until its line is complete.
    this.rest = "";
    this.offset = undefined;
    this.missing = 0;
  }

  async poll() {
    const slot = this.slot;
    const place = this.offset === undefined ? { tailLines: FIRST_LINES } : { offset: this.offset };
    const chunk = await api.log(this.job, { slot: slot === "" ? undefined : slot, ...place });
    if (slot !== this.slot) return;
    this.offset = chunk.nextOffset ?? this.offset ?? 0;
    this.missing += toNumber(chunk.missingBytes);
    const lines = (this.rest + (chunk.text ?? "")).split("\n");
    this.rest = lines.pop();
    this.lines = this.lines.concat(lines.map(withoutColours)).slice(-MOST_LINES);
  }

  choose(slot) {
    this.slot = slot;
    this.clear();
    this.onChange();
  }

  draw(slots) {
    const matching = this.search ? this.lines.filter((line) => line.toLowerCase().includes(this.search.toLowerCase())) : this.lines;
    const first = Math.max(0, matching.length - SHOWN_LINES);
    return [
      h("form", { class: "toolbar", role: "search", key: "search", onsubmit: (event) => event.preventDefault() },
        h("label", null, "Slot ", h("select", { value: this.slot, onchange: (event) => this.choose(event.target.value) },
          h("option", { value: "" }, "all"), slots.map((slot) => h("option", { value: String(slot), key: slot }, String(slot))))),
        h("label", null, "Search ", h("input", { type: "search", value: this.search, oninput: (event) => {
          this.search = event.target.value;
          this.onChange();
        } }))),
      h("p", { class: "soft", key: "count", role: "status" },
        `${count(matching.length, "line")}${first > 0 ? `, the last ${SHOWN_LINES} shown` : ""}` +
        `${this.missing ? `; ${formatBytes(this.missing)} before were dropped` : ""}`),
      h("pre", { class: "log", key: "text", tabindex: "0", role: "region", "aria-label": "Log" },
        h("div", null, matching.slice(first).map((line, index) => h("div", { key: first + index },
          splitMatches(line, this.search).map(([text, matches]) => (matches ? h("mark", null, text) : text)))),
        matching.length === 0 && "There are no such lines.")),
    ];
  }
}
