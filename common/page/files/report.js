// The report of `muster compare` and `muster report`: the comparison's view, with the data that the page carries.
import { partsOf } from "./bars.js";
import { comparisonCharts, comparisonView, finalFigures, groupsBy, shortNames } from "./comparison.js";
import { FIRST_SETTINGS } from "./controls.js";
import { render } from "./dom.js";
import { toColumns } from "./series.js";

const comparison = JSON.parse(document.getElementById("comparison").textContent);
let settings = { ...FIRST_SETTINGS, axis: "examples", group: comparison.group };

const short = shortNames(comparison.runs.map(({ name }) => name));
const shortOf = (name) => short.get(name) ?? name;
const shortened = (labels) => Object.fromEntries(Object.entries(labels).map(([label, value]) => [label, shortOf(value)]));
const runs = comparison.runs.map((run, index) => ({
  ...run,
  name: shortOf(run.name),
  labels: shortened(run.labels),
  colour: index,
  curves: Object.fromEntries(run.series.map(({ name, points }) => [name, toColumns(points)])),
}));
// A road's runs differ in nothing that is configured.
const configurations = groupsBy(runs, comparison.group).map(([name, [{ specification }]]) => ({ name, specification }));
const steps = comparison.steps.map(({ name, seconds }) => ({ name: shortOf(name), parts: partsOf(seconds) }));
const alert = (text) => comparison.mismatches.some((each) => text.endsWith(each));
const tableOf = (table) => table && { ...table, head: table.head.map(shortOf), alert };
const exact = tableOf(comparison.exact);
// Those of jobs agree with their curves; those of a comparison were measured, and come as texts.
const figures = tableOf(comparison.figures ?? { head: ["", ...comparison.runs.map(({ name }) => name)], rows: [
  ...finalFigures(comparison.jobs, runs),
  ["workers", ...runs.map(({ specification }) => String(specification.workers ?? "–"))],
  ["job", ...comparison.jobs.map(({ jobId }) => jobId)],
] });

function draw() {
  const charts = comparisonCharts(runs, settings);
  const view = comparisonView({ ...comparison, runs, configurations, charts, figures, exact, steps }, settings, (changed) => {
    settings = changed;
    draw();
  });
  render(document.getElementById("comparison-view"), view);
}

draw();
