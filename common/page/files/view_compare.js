// Several jobs side by side.
import { api } from "./api.js";
import { comparisonCharts, comparisonTitle, comparisonView, finalFigures, shortNames } from "./comparison.js";
import { FIRST_SETTINGS } from "./controls.js";
import { h } from "./dom.js";
import { toNumber } from "./format.js";
import { History } from "./history.js";
import { hasEnded } from "./problems.js";

const SERIES = ["train/*", "held_out/*", "speed/*", "staleness/*"];
const MOST_POINTS = 1000;
export const MOST_COMPARED = 16;

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
    const figures = { head: ["", ...runs.map((run) => run.name)], rows: finalFigures(this.ids.map((id) => this.jobs.get(id)), runs) };
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
