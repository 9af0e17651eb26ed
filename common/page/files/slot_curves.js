// Shows where slots' steps went over the whole run: a chart for each part of a step has a curve for each slot.
import { COLOURS } from "./chart.js";
import { linesOf, placeMarks } from "./controls.js";
import { toNumber } from "./format.js";
import { withOneSpan } from "./series.js";

// The parts as the job's history names them (proto/metrics.proto).
const PARTS = [
  ["step", "Step"],
  ["compute", "Compute"],
  ["communication", "Waiting for the data plane"],
  ["data", "Waiting for training data"],
];

// Returns the slots that are shown together: lists of neighbours, as many as there are colours.
export function slotGroups(job) {
  const slots = Array.from({ length: toNumber(job.spec?.workers) || 1 }, (_, slot) => slot);
  return Array.from({ length: Math.ceil(slots.length / COLOURS) }, (_, index) => slots.slice(index * COLOURS, (index + 1) * COLOURS));
}

// Returns a group's name, such as "0 to 7 (5 is slow)".
export function groupName(group, job) {
  const slow = (job.tasks ?? []).filter((task) => task.slow).map((task) => toNumber(task.slot)).filter((slot) => group.includes(slot));
  const slots = group.length > 1 ? `${group[0]} to ${group.at(-1)}` : String(group[0]);
  return slow.length === 0 ? slots : `${slots} (${slow.join(", ")} ${slow.length > 1 ? "are" : "is"} slow)`;
}

// Returns the names of the series that the charts of these slots need.
export function slotSeries(slots) {
  return slots.flatMap((slot) => PARTS.map(([part]) => `slot/${slot}/${part}`));
}

// Returns the charts' data; a slot keeps its colour in all of them. `run`: {batchSize, startMs}.
export function slotCurveData(history, slots, marks, settings, run) {
  const placed = placeMarks(marks, settings, run);
  return withOneSpan(PARTS.map(([part, title]) => ({
    key: title,
    title,
    axis: settings.axis,
    log: settings.log,
    seconds: true,
    marks: placed,
    sync: "slots",
    lines: slots.filter((slot) => history.series.has(`slot/${slot}/${part}`)).flatMap((slot) => (
      linesOf(`slot ${slot}`, slot % COLOURS, history.series.get(`slot/${slot}/${part}`), settings, run).map(({ low, high, ...line }) => line))),
  })).filter(({ lines }) => lines.length > 0));
}
