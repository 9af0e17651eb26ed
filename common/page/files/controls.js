// Controls of how curves are drawn: axis, log scale and smoothing, for all charts of a view.
import { h } from "./dom.js";
import { endOf, smooth, xValues } from "./series.js";

export const FIRST_SETTINGS = { axis: "steps", log: false, smoothing: 0 };

// Describes the controls; `onChange` gets the new settings.
export function chartControls(settings, onChange) {
  const change = (name, value) => onChange({ ...settings, [name]: value });
  return h("fieldset", { class: "controls" },
    h("legend", { class: "hidden" }, "How curves are drawn"),
    h("label", null, "Over ",
      h("select", { value: settings.axis, onchange: (event) => change("axis", event.target.value) },
        h("option", { value: "steps" }, "steps"),
        h("option", { value: "examples" }, "examples"),
        h("option", { value: "time" }, "time"))),
    h("label", null,
      h("input", { type: "checkbox", checked: settings.log, onchange: (event) => change("log", event.target.checked) }),
      " log scale"),
    h("label", null, "Smoothing ",
      h("input", { type: "range", min: "0", max: "0.99", step: "0.01", value: String(settings.smoothing),
        oninput: (event) => change("smoothing", Number(event.target.value)) }),
      h("span", { class: "value" }, settings.smoothing ? settings.smoothing.toFixed(2) : "off")));
}

// Returns the chart's lines of one series: where it is smoothed, the curve as it is stays faintly behind.
export function linesOf(name, colour, columns, settings, run, more = {}) {
  const x = xValues(columns, settings.axis, run);
  const line = { name, colour, x, y: smooth(columns.values, settings.smoothing), ...more };
  if (settings.smoothing > 0) {
    return [{ ...line, y: columns.values, faint: true, name: `${name}, not smoothed` }, line];
  }
  // The last point may stand for several steps.
  line.end = endOf(columns);
  const wide = columns.low.some((low, index) => low !== columns.high[index]);
  return [wide ? { ...line, low: columns.low, high: columns.high } : line];
}

// Returns marks with their place on the axis.
export function placeMarks(marks, settings, { batchSize, startMs }) {
  return marks.map((mark) => ({
    ...mark,
    x: settings.axis === "time" ? (mark.unixMs - startMs) / 1000
      : mark.step * (settings.axis === "examples" ? batchSize : 1),
  }));
}
