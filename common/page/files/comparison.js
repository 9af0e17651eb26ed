// Runs side by side: curves over one another, what differs between their configurations, and final figures. The page
// shows jobs so, and the report of `muster compare` the roads that a job can take.
import { bar, barLegend, STEP_PARTS } from "./bars.js";
import { mountChart, swatch } from "./chart.js";
import { chartControls, linesOf } from "./controls.js";
import { differences, fieldName } from "./differences.js";
import { h } from "./dom.js";
import { formatDuration, formatFigure, formatNumber, toNumber } from "./format.js";
import { endOf, meanWithBand, smooth, withOneSpan, xValues } from "./series.js";
import { stackedTable } from "./table.js";

const LONGEST_NAME = 36, NAME_END = 20;

// Returns for each name what legends and heads of tables call it: of a long one the beginning and the end, as long as no
// other name looks the same.
export function shortNames(names) {
  const cut = (name) => (name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME - NAME_END - 1)}…${name.slice(-NAME_END)}` : name);
  const all = [...new Set(names)];
  return new Map(all.map((name) => [name, all.filter((other) => cut(other) === cut(name)).length > 1 ? name : cut(name)]));
}

// Returns the names of labels that group the runs: those that put at least two of them together.
export function groupingLabels(runs) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.labels ?? {})))].sort();
  return names.filter((label) => hasGroups(runs, label));
}

function hasGroups(runs, label) {
  return groupsBy(runs, label).some(([, group]) => group.length > 1);
}

// Returns the runs by their value of a label, as [value, runs], in the runs' order.
export function groupsBy(runs, label) {
  const groups = new Map();
  for (const run of runs) {
    const value = run.labels?.[label] ?? "(none)";
    if (!groups.has(value)) groups.set(value, []);
    groups.get(value).push(run);
  }
  return [...groups];
}

function groupLine(name, colour, runs, series, settings) {
  const curves = runs.map((run) => ({ x: xValues(run.curves[series], settings.axis, run), y: run.curves[series].values }));
  if (curves.length === 1) return { name, colour, x: curves[0].x, y: smooth(curves[0].y, settings.smoothing) };
  const band = meanWithBand(curves);
  const line = { name: `${name} (mean of ${curves.length})`, colour, x: band.x, y: smooth(band.y, settings.smoothing) };
  return { ...line, low: smooth(band.low, settings.smoothing), high: smooth(band.high, settings.smoothing) };
}

// Returns the data of all charts of a comparison.
export function comparisonCharts(runs, settings) {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.curves)))];
  const order = (name) => ["train/loss", "held_out/", "train/", "speed/", "staleness/"].findIndex((each) => name.startsWith(each));
  return withOneSpan(names.filter((name) => order(name) >= 0).sort((a, b) => order(a) - order(b) || (a < b ? -1 : 1)).map((series) => {
    const has = (run) => run.curves[series]?.steps.length > 0;
    const lines = settings.group
      ? groupsBy(runs, settings.group).map(([value, group], index) => ({ value, index, group: group.filter(has) }))
        .filter(({ group }) => group.length > 0)
        .map(({ value, index, group }) => groupLine(value, index, group, series, settings))
      : runs.filter(has).flatMap((run) => linesOf(run.name, run.colour, run.curves[series], settings, run)
        .map(({ low, high, ...line }) => line));
    return { title: seriesTitle(series), axis: settings.axis, log: settings.log, lines, sync: "comparison", key: series };
  }));
}

const NAMES = {
  "train/learning_rate": "learning rate",
  "train/gradient_norm": "gradient norm",
  "train/noise_scale": "gradient noise scale",
  "train/expert_load_lowest": "load of the least used expert",
  "train/expert_load_highest": "load of the most used expert",
  "train/dropped_tokens": "share of choices that were dropped",
  "speed/examples_per_second": "examples/s",
  "speed/tokens_per_second": "tokens/s",
  "speed/mfu": "share of the peak in use (MFU)",
  "staleness/mean": "mean staleness",
  "staleness/max": "largest staleness",
};

// Returns a series' name in words, such as "held-out bits per byte", the same in heads, legends and tables.
export function seriesName(name) {
  return NAMES[name] ?? name.replace("held_out/", "held-out ").replace("train/", "training ").replace(/[_/]/g, " ");
}

// Returns the name as a chart's title.
export function seriesTitle(name) {
  const words = seriesName(name);
  return words[0].toUpperCase() + words.slice(1);
}

// Returns the colour in which the charts show what a table's column is called: a run or a group of them; undefined: they
// show several curves for it.
function colourOfName(name, runs, settings) {
  if (!settings.group) return runs.find((run) => run.name === name)?.colour;
  const groups = groupsBy(runs, settings.group);
  const label = runs.find((run) => run.name === name)?.labels?.[settings.group] ?? name;
  const index = groups.findIndex(([value]) => value === label);
  return index < 0 ? undefined : index;
}

// Describes a comparison {notes, alerts, runs, configurations: {name, specification}, charts, figures: rows of texts with
// a head, steps} and, where there are any, `exact`: rows as those of figures.
export function comparisonView(comparison, settings, onChange) {
  const { runs, configurations } = comparison;
  const labels = groupingLabels(runs);
  const different = differences(configurations.map(({ specification }) => specification));
  const headingOf = (name) => {
    const colour = colourOfName(name, runs, settings);
    return colour === undefined ? name : [swatch(colour), name];
  };
  return [
    comparison.notes.map((note) => h("p", { key: note, class: "description" }, note)),
    comparison.alerts.map((alert) => h("p", { class: "problem error", key: alert }, alert)),
    h("h2", { key: "curves" }, "Curves"),
    h("div", { class: "toolbar", key: "toolbar" },
      chartControls(settings, onChange),
      labels.length > 0 && h("label", null, "Group by ",
        h("select", { value: settings.group, onchange: (event) => onChange({ ...settings, group: event.target.value }) },
          h("option", { value: "" }, "nothing"),
          labels.map((label) => h("option", { value: label, key: label }, label))))),
    settings.group && hasGroups(runs, settings.group) && h("p", { class: "soft", key: "band" },
      "A group's curve is the mean of its runs where all of them have a value; its band reaches from the smallest to the largest."),
    h("div", { class: "charts", key: "charts" }, comparison.charts.map((chart) => h("div",
      { key: chart.key, mount: mountChart, data: chart }))),
    comparison.steps.length > 0 && [
      h("h2", { key: "steps" }, "Where a step's time goes"),
      stepBars(comparison.steps),
    ],
    h("h2", { key: "figures" }, "Final figures"),
    figureTable("Final figures", comparison.figures, headingOf),
    comparison.exact && h("details", { key: "exact" }, h("summary", null, "Exact figures, and how far the repeats went"),
      figureTable("Exact figures", comparison.exact, headingOf)),
    configurations.length > 1 && h("h2", { key: "differences" }, "Configuration differences"),
    configurations.length > 1 && (different.length === 0 ? h("p", { key: "none" }, "The configurations are the same.") : stackedTable("Configuration differences", [
      { name: "field", cell: ({ path }) => h("code", null, fieldName(path)) },
      ...configurations.map(({ name }, index) => ({ name, heading: headingOf(name), class: "text", cell: ({ values }) => String(values[index] ?? "–") })),
    ], different, ({ path }) => path)),
  ];
}

// Returns rows of the table of final figures: a name, then a text for each job. Those that are drawn are as the legends of
// the jobs' runs say them.
export function finalFigures(jobs, runs) {
  const metrics = [...new Set(jobs.flatMap((job) => (job.evaluations ?? []).map(({ metric }) => metric)))];
  const lastOf = (job, metric) => (job.evaluations ?? []).filter((each) => each.metric === metric).pop();
  const row = (name, cell) => [name, ...jobs.map(cell)];
  const progress = (name, format) => (job) => (job.progress?.[name] === undefined ? "–" : format(job.progress[name]));
  const end = (series, name) => (job, index) => formatFigure(endOf(runs[index].curves[series]) ?? job.progress?.[name]);
  return [
    row("state", (job) => (job.state ?? "").toLowerCase()),
    row("step", progress("step", (step) => formatNumber(toNumber(step)))),
    row("training loss", end("train/loss", "loss")),
    ...metrics.flatMap((metric) => [
      row(`held-out ${metric.replace(/_/g, " ")}`, (job) => formatFigure(lastOf(job, metric)?.value)),
      ...(metric === "loss" ? [] : [row("held-out loss", (job) => formatFigure(lastOf(job, metric)?.loss))]),
    ]),
    row("examples/s", end("speed/examples_per_second", "examplesPerSecond")),
    row("training time", progress("trainingSeconds", formatDuration)),
  ];
}

function figureTable(caption, { head, rows, alert = () => false }, headingOf) {
  return stackedTable(caption, head.map((name, index) => ({
    name: name || "figure",
    heading: index > 0 ? headingOf(name) : "figure",
    numeric: index > 0,
    cell: (row) => (alert(row[index]) ? h("strong", { class: "error" }, row[index]) : row[index]),
  })), rows, (row, index) => `${index} ${row[0]}`);
}

function stepBars(steps) {
  const whole = Math.max(...steps.map(({ parts }) => parts.reduce((sum, part) => sum + part.value, 0)));
  return h("div", { class: "bars", key: "bars" }, barLegend(STEP_PARTS), steps.map(({ name, parts }) => h("div", { class: "bar-row named", key: name },
    h("span", { class: "bar-name" }, name),
    bar(parts, whole),
    h("span", { class: "number" }, formatDuration(parts.reduce((sum, part) => sum + part.value, 0))))));
}

// Returns a title for runs, such as "Comparison of a and b" or "Comparison of 5 jobs".
export function comparisonTitle(runs) {
  if (runs.length > 2) return `Comparison of ${runs.length} jobs`;
  return `Comparison of ${runs.map((run) => run.name).join(" and ")}`;
}
