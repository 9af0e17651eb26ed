// A job's events, newest first, by kind and text.
import { h } from "./dom.js";
import { KIND_NAMES } from "./events.js";
import { count, formatNumber, formatTime } from "./format.js";

const OTHER = "other";

export const ALL_EVENTS = { kind: "", text: "" };

// Returns the events of the filter's kind ("": any) whose text has all words of the filter's text.
export function filterEvents(events, { kind, text }) {
  const words = text.toLowerCase().split(/\s+/);
  return events.filter((event) => (!kind || (KIND_NAMES[event.kind] ?? OTHER) === kind) &&
    words.every((word) => (event.text ?? "").toLowerCase().includes(word)));
}

// Describes the tab; `onFilter` gets another filter.
export function eventsTab(events, filter, onFilter) {
  const shown = filterEvents(events, filter);
  return [
    h("form", { class: "toolbar", role: "search", key: "filter", onsubmit: (event) => event.preventDefault() },
      h("label", null, "Kind ", h("select", { value: filter.kind, onchange: (event) => onFilter({ ...filter, kind: event.target.value }) },
        h("option", { value: "" }, "any"),
        [...Object.values(KIND_NAMES), OTHER].map((kind) => h("option", { value: kind, key: kind }, kind)))),
      h("label", null, "Filter ", h("input", { type: "search", value: filter.text, oninput: (event) => onFilter({ ...filter, text: event.target.value.trim() }) }))),
    h("p", { class: "soft", key: "count", role: "status" },
      `${count(events.length, "event")}${shown.length < events.length ? `, ${formatNumber(shown.length)} of them shown` : ""}`),
    h("ol", { class: "events", key: "events" }, shown.map((event, index) => h("li", { key: index },
      h("time", null, formatTime(event.unixMs)), ` step ${formatNumber(event.step ?? 0)}: ${event.text ?? ""}`)).reverse()),
  ];
}
