// The curves of some trials of a search: the objective's metric over the steps of each trial's jobs, read once they are shown.
import { unlessMissing } from "./api.js";
import { linesOf } from "./controls.js";
import { History } from "./history.js";
import { mergeColumns } from "./series.js";

// Trials whose curves are drawn at a time: as many as colours and dashes tell apart.
export const MOST_CURVES = 16;
const MOST_POINTS = 300;
// Jobs that one poll reads.
const MOST_READ = 8;

// Returns the series of a search's objective, as a job's history names it.
export function objectiveSeries(search) {
  return `held_out/${search.objective?.metric || "loss"}`;
}

// Returns the columns of several jobs of one trial as one curve, in order: a later job goes on where an earlier one ended.
export function joinColumns(all) {
  return all.filter(Boolean).reduce((joined, columns) => mergeColumns(joined, columns), undefined);
}

export class TrialCurves {
  constructor(series) {
    this.series = series;
    // The jobs' {history, complete} by id.
    this.jobs = new Map();
    // Changes with the content.
    this.version = 0;
  }

  // Reads what is new of these rows' jobs, and forgets those of other rows. Jobs not read before come first.
  async poll(rows) {
    const wanted = new Map(rows.flatMap((row) => row.jobs.map((job, index) => [job, row.state !== "RUNNING" || index + 1 < row.jobs.length])));
    for (const job of this.jobs.keys()) if (!wanted.has(job)) this.jobs.delete(job);
    const open = [...wanted].filter(([job]) => !this.jobs.get(job)?.complete);
    open.sort(([a], [b]) => Number(this.jobs.has(a)) - Number(this.jobs.has(b)));
    await Promise.all(open.slice(0, MOST_READ).map(async ([job, ended]) => {
      const known = this.jobs.get(job) ?? { history: new History(job, [this.series], MOST_POINTS, () => true), complete: false };
      await known.history.poll().catch(unlessMissing);
      // A job that has ended may have made its last steps before this reading, and makes no more.
      known.complete = ended;
      this.jobs.set(job, known);
    }));
    this.version = [...this.jobs].map(([job, { history }]) => `${job}:${history.version}`).join();
  }

  // Returns the chart's lines of these rows; that of the trial `highlighted` stands out.
  lines(rows, highlighted, settings) {
    return rows.flatMap((row, colour) => {
      const columns = joinColumns(row.jobs.map((job) => this.jobs.get(job)?.history.series.get(this.series)));
      if (!columns) return [];
      return linesOf(`trial ${row.trial}`, colour, columns, settings, { batchSize: 1, startMs: 0 }, { dots: columns.steps.length < 20, strong: row.trial === highlighted });
    });
  }
}
