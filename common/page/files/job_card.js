// A running job as a card: its curve, how far it is, and its figures.
import { h } from "./dom.js";
import { count, formatDuration, formatFigure, formatNumber, toNumber } from "./format.js";
import { jobLink, lastMetric, stateBadge } from "./job_words.js";
import { downsample, endOf } from "./series.js";

const MOST_POINTS = 120;

// Returns the curve as an SVG path in a field of 100 by 30; "" for fewer than two points. Values that are no finite
// numbers are left out.
export function sparkPath({ steps, values }) {
  const finite = steps.map((_, index) => index).filter((index) => Number.isFinite(values[index]));
  if (finite.length < 2) return "";
  const kept = downsample(finite.map((index) => values[index]), MOST_POINTS).map((index) => finite[index]);
  const shown = kept.map((index) => values[index]);
  const low = Math.min(...shown), high = Math.max(...shown), first = steps[kept[0]], last = steps[kept.at(-1)];
  return kept.map((index, place) => {
    const x = ((steps[index] - first) / (last - first || 1)) * 100;
    const y = 29 - ((values[index] - low) / (high - low || 1)) * 28;
    return `${place ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
  }).join("");
}

function sparkline(columns) {
  const path = columns ? sparkPath(columns) : "";
  if (!path) return h("div", { class: "sparkline empty" }, "no curve yet");
  return h("svg", { class: "sparkline", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img",
    "aria-label": `training loss from ${formatFigure(columns.values[0])} to ${formatFigure(endOf(columns))}` },
    h("path", { d: path, "vector-effect": "non-scaling-stroke" }));
}

// Describes how far the job is: in steps, with a bar where all of them are known.
export function stepsOf(progress, ...more) {
  const step = toNumber(progress.step), all = toNumber(progress.totalSteps);
  return [
    all > 0 && h("progress", { key: "bar", max: String(all), value: String(step), "aria-label": "steps" }),
    h("p", { class: "soft", key: "steps" }, `step ${formatNumber(step)}${all ? ` of ${formatNumber(all)}` : ""}`, ...more),
  ];
}

// Describes names and texts; those without a text are left out.
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, text]) => text).map(([name, text]) => (
    h("div", { key: name }, h("dt", null, name), h("dd", null, text)))));
}

// Describes the card; `columns`: the training loss, if it is known.
export function jobCard(job, columns) {
  const progress = job.progress ?? {}, metric = lastMetric(job);
  return h("li", { class: "card", key: job.jobId },
    h("h3", null, jobLink(job), " ", stateBadge(job.state)),
    h("p", { class: "soft" }, `${job.jobId} · ${count(job.tasks?.length ?? 0, "slot")}`),
    sparkline(columns),
    stepsOf(progress),
    facts([
      ["training loss", progress.loss !== undefined && formatFigure(progress.loss)],
      [`held-out ${metric?.metric}`, metric?.value],
      ["examples/s", progress.examplesPerSecond && formatFigure(progress.examplesPerSecond)],
      ["left", progress.secondsLeft && formatDuration(progress.secondsLeft)],
    ]));
}
