// Several jobs side by side.
import { api } from "./api.js";
import { comparisonCharts, comparisonTitle, comparisonView, shortNames } from "./comparison.js";
import { FIRST_SETTINGS } from "./controls.js";
import { h } from "./dom.js";
import { formatDuration, formatFigure, formatNumber, toNumber } from "./format.js";
import { History } from "./history.js";
import { hasEnded } from "./problems.js";
import { endOf } from "./series.js";

const SERIES = ["train/*", "held_out/*", "speed/*", "staleness/*"];
const MOST_POINTS = 1000;
export const MOST_COMPARED = 16;

// Returns rows of the table of final figures: a name, then a text for each job. Those that are drawn are as the curves'
// legends say them; `curves`: each job's series by name.
export function finalFigures(jobs, curves) {
  const metrics = [...new Set(jobs.flatMap((job) => (job.evaluations ?? []).map(({ metric }) => metric)))];
  const lastOf = (job, metric) => (job.evaluations ?? []).filter((each) => each.metric === metric).pop();
  const row = (name, cell) => [name, ...jobs.map(cell)];
  const progress = (name, format) => (job) => (job.progress?.[name] === undefined ? "–" : format(job.progress[name]));
  const end = (series, name) => (job, index) => formatFigure(endOf(curves[index].get(series)) ?? job.progress?.[name]);
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

class Compare {
  constructor(context) {
    this.context = context;
    this.ids = [...new Set((context.route.query.get("jobs") ?? "").split(",").filter(Boolean))].slice(0, MOST_COMPARED);
    this.settings = { ...FIRST_SETTINGS, group: context.route.query.get("group") ?? "" };
    this.histories = new Map(this.ids.map((id) => [id, new History(id, SERIES, MOST_POINTS)]));
    this.jobs = new Map();
  }

  title() {
    return this.jobs.size ? comparisonTitle(this.runs()) : "Comparison";
  }

  async poll() {
    await Promise.all(this.ids.map(async (id) => {
      const before = this.jobs.get(id);
      if (before && hasEnded(before) && before.complete) return;
      const [job] = await Promise.all([api.job(id), this.histories.get(id).poll()]);
      this.jobs.set(id, { ...job, complete: before && hasEnded(before) });
    }));
  }

  // Returns the jobs as runs; those that have one name go by their id, too.
  runs() {
    const jobs = this.ids.map((id) => this.jobs.get(id)).filter(Boolean);
    const names = jobs.map(({ jobId, spec }) => {
      const name = spec?.name ?? "";
      const alone = jobs.filter((each) => each.spec?.name === name).length === 1;
      return name && alone ? name : `${name} ${jobId}`.trim();
    });
    const short = shortNames(names);
    return jobs.map((job, index) => ({
      name: short.get(names[index]),
      colour: index,
      labels: job.spec?.labels ?? {},
      specification: job.spec,
      curves: Object.fromEntries(this.histories.get(job.jobId).series),
      batchSize: toNumber(job.spec?.batchSize) || 1,
      startMs: toNumber(job.startedUnixMs) || toNumber(job.submittedUnixMs),
    }));
  }

  draw() {
    if (this.ids.length === 0) return [h("p", null, "Tick at least two jobs in the list of ", h("a", { href: "/" }, "all jobs"), ".")];
    if (this.jobs.size < this.ids.length) return [h("p", null, "Reading …")];
    const runs = this.runs();
    const key = JSON.stringify([this.ids.map((id) => this.histories.get(id).version), this.settings]);
    if (key !== this.chartsKey) {
      this.chartsKey = key;
      this.charts = comparisonCharts(runs, this.settings);
    }
    const figures = { head: ["", ...runs.map((run) => run.name)], rows: finalFigures(this.ids.map((id) => this.jobs.get(id)), this.ids.map((id) => this.histories.get(id).series)) };
    const links = h("p", { key: "links" }, this.ids.map((id, index) => [index > 0 && " · ",
      h("a", { key: id, href: `/jobs/${encodeURIComponent(id)}`, title: this.jobs.get(id).spec?.name }, runs[index].name)]));
    return [links, ...comparisonView({ notes: [], alerts: [], runs, configurations: runs, charts: this.charts, figures, steps: [] }, this.settings, (settings) => {
      this.settings = settings;
      this.context.draw();
    })];
  }
}

export function compareView(context) {
  return new Compare(context);
}
