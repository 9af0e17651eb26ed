// Bars of what a step's time or a process' memory goes to.
import { h } from "./dom.js";
import { formatDuration } from "./format.js";

// Describes a bar with parts {name, value, text, kind} of `whole`. What it shows is also its text for screen readers.
export function bar(parts, whole) {
  const label = parts.map((part) => `${part.name} ${part.text}`).join(", ");
  return h("div", { class: "bar", role: "img", "aria-label": label, title: label },
    parts.map((part) => h("span", {
      key: part.kind,
      class: `part ${part.kind}`,
      style: { width: `${whole > 0 ? Math.min(100, (part.value / whole) * 100) : 0}%` },
    })));
}

// Describes what the parts' colours stand for.
export function barLegend(kinds) {
  return h("ul", { class: "legend" }, kinds.map(([kind, name]) => h("li", { key: kind },
    h("span", { class: `swatch part ${kind}` }), name)));
}

export const STEP_PARTS = [
  ["compute", "compute"],
  ["communication", "waiting for the data plane"],
  ["data", "waiting for training data"],
];

// Returns a step's seconds {compute, communication, data} as parts of a bar.
export function partsOf(seconds) {
  return STEP_PARTS.map(([kind, name]) => ({ kind, name, value: seconds[kind], text: formatDuration(seconds[kind]) }));
}
