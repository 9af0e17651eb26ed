// The first page: the cluster in one sentence, running jobs as cards, what is wrong, and all jobs.
import { allJobs, api, queryOf, unlessMissing } from "./api.js";
import { dismiss, dismissedJobs } from "./dismissed.js";
import { h } from "./dom.js";
import { count, formatDuration, formatFigure, formatNumber, formatTime, toNumber } from "./format.js";
import { clusterSentence, findProblems, hasEnded, jobsSentence } from "./problems.js";
import { downsample, endOf, toColumns } from "./series.js";
import { table } from "./table.js";

const NOT_ENDED = ["PENDING", "PLACING", "RUNNING", "RECOVERING"];
const MOST_JOBS = 5000;
const MOST_CARDS = 12;
const MOST_PROBLEMS = 3;
const ROWS = 50;
const NEWEST = 50;
// Numbers of polls after which what changes slowly is read again.
const EVERY_LIST = 30, EVERY_SPARKLINE = 3;

// Jobs whose loss is no number, or that have none, come last.
const lossOf = (job) => {
  const loss = Number(job.progress?.loss ?? NaN);
  return Number.isNaN(loss) ? Number.MAX_VALUE : loss;
};

const SORTS = {
  newest: (a, b) => toNumber(b.submittedUnixMs) - toNumber(a.submittedUnixMs),
  oldest: (a, b) => toNumber(a.submittedUnixMs) - toNumber(b.submittedUnixMs),
  name: (a, b) => (a.spec?.name ?? "").localeCompare(b.spec?.name ?? ""),
  state: (a, b) => (a.state ?? "").localeCompare(b.state ?? ""),
  "training loss": (a, b) => lossOf(a) - lossOf(b) || 0,
};

// Returns true if each word of `text` is in the job's id, name, owner or labels.
export function matchesText(job, text) {
  const labels = Object.entries(job.spec?.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const all = [job.jobId, job.spec?.name, job.spec?.owner, ...labels].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => all.includes(word));
}

// Returns the last evaluation's {metric, value} as texts; undefined: there is none, or it has no value.
export function lastMetric(job) {
  const last = job.evaluations?.[job.evaluations.length - 1];
  if (!last || last.value === undefined) return undefined;
  return { metric: last.metric.replace(/_/g, " "), value: formatFigure(last.value) };
}

export function stateBadge(state) {
  return h("span", { class: `state ${state}` }, (state ?? "").toLowerCase());
}

export function jobLink(job) {
  return h("a", { href: `/jobs/${encodeURIComponent(job.jobId)}` }, job.spec?.name || job.jobId);
}

function sparkline(columns) {
  if (!columns || columns.steps.length < 2) return h("div", { class: "sparkline empty" }, "no curve yet");
  const kept = downsample(columns.values, 120);
  const values = kept.map((index) => columns.values[index]), steps = kept.map((index) => columns.steps[index]);
  const low = Math.min(...values), high = Math.max(...values), first = steps[0], last = steps[steps.length - 1];
  const path = values.map((value, index) => {
    const x = ((steps[index] - first) / (last - first || 1)) * 100;
    const y = 29 - ((value - low) / (high - low || 1)) * 28;
    return `${index ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
  }).join("");
  return h("svg", { class: "sparkline", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img",
    "aria-label": `training loss from ${formatFigure(values[0])} to ${formatFigure(endOf(columns))}` },
    h("path", { d: path, "vector-effect": "non-scaling-stroke" }));
}

function card(job, columns) {
  const progress = job.progress ?? {};
  const step = toNumber(progress.step), all = toNumber(progress.totalSteps);
  const metric = lastMetric(job);
  const facts = [
    ["training loss", progress.loss === undefined ? "" : formatFigure(progress.loss)],
    [`held-out ${metric?.metric}`, metric?.value],
    ["examples/s", progress.examplesPerSecond ? formatFigure(progress.examplesPerSecond) : ""],
    ["left", progress.secondsLeft ? formatDuration(progress.secondsLeft) : ""],
  ].filter(([, text]) => text);
  return h("li", { class: "card", key: job.jobId },
    h("h3", null, jobLink(job), " ", stateBadge(job.state)),
    h("p", { class: "soft" }, `${job.jobId} · ${count(job.tasks?.length ?? 0, "slot")}`),
    sparkline(columns),
    h("progress", { max: String(all || 1), value: String(step), "aria-label": "steps" }),
    h("p", { class: "soft" }, `step ${formatNumber(step)}${all ? ` of ${formatNumber(all)}` : ""}`),
    h("dl", { class: "facts" }, facts.map(([name, text]) => h("div", { key: name }, h("dt", null, name), h("dd", null, text)))));
}

class Home {
  constructor(context) {
    this.context = context;
    this.jobs = new Map();
    this.running = [];
    this.curves = new Map();
    this.chosen = new Set();
    this.filter = { text: "", state: "", sort: "newest", page: 0 };
    this.polls = 0;
  }

  title() {
    return "Jobs";
  }

  async poll() {
    const turn = this.polls++;
    const [cluster, active, running, newest] = await Promise.all([
      api.cluster(),
      allJobs({ view: "SHORT", states: NOT_ENDED, pageSize: 500 }, MOST_JOBS),
      api.jobs({ view: "WHOLE", states: ["RUNNING", "RECOVERING"], pageSize: MOST_CARDS, newestFirst: true }),
      api.jobs({ view: "SHORT", pageSize: NEWEST, newestFirst: true }),
    ]);
    this.cluster = cluster;
    this.running = running.jobs ?? [];
    const now = new Set(active.map((job) => job.jobId));
    // A job that no longer is active, and is too old to be among the newest, has ended unseen.
    const newestIds = new Set((newest.jobs ?? []).map((job) => job.jobId));
    const stale = [...this.jobs.values()].some((job) => !hasEnded(job) && !now.has(job.jobId) && !newestIds.has(job.jobId));
    if (turn % EVERY_LIST === 0 || stale) {
      this.jobs = new Map((await allJobs({ view: "SHORT", pageSize: 500, newestFirst: true }, MOST_JOBS))
        .map((job) => [job.jobId, job]));
    }
    for (const job of [...active, ...(newest.jobs ?? [])]) this.jobs.set(job.jobId, job);
    for (const id of this.chosen) if (!this.jobs.has(id)) this.chosen.delete(id);
    await Promise.all(this.running.map((job, index) => this.pollCard(job.jobId, turn + index)));
  }

  async pollCard(job, turn) {
    if (turn % EVERY_SPARKLINE === 0 || !this.curves.has(job)) {
      const reply = await api.metrics(job, { series: "train/loss", maxPoints: 120 }).catch(unlessMissing);
      this.curves.set(job, toColumns(reply?.series?.[0]?.points));
    }
  }

  // Returns all jobs, those whose tasks are known with them.
  known() {
    const whole = new Map(this.running.map((job) => [job.jobId, job]));
    return [...this.jobs.values()].map((job) => whole.get(job.jobId) ?? job);
  }

  draw() {
    if (!this.cluster) return [h("p", null, "Reading …")];
    const jobs = this.known();
    return [
      h("p", { class: "lead", key: "sentence" }, `${clusterSentence(this.cluster)}; ${jobsSentence(jobs)}.`),
      this.cards(jobs),
      this.problems(jobs),
      this.list(jobs),
    ];
  }

  problems(jobs) {
    const problems = findProblems(this.cluster, jobs, Date.now(), dismissedJobs());
    const shown = this.allProblems ? problems : problems.slice(0, MOST_PROBLEMS);
    return h("section", { key: "problems", "aria-labelledby": "wrong" },
      h("h2", { id: "wrong" }, "What is wrong"),
      problems.length === 0 ? h("p", { class: "fine" }, "Nothing is wrong.") : h("ul", { class: "problems" },
        shown.map((problem) => h("li", { class: `problem ${problem.level}`, key: problem.key },
          h("a", { href: problem.href }, problem.title),
          h("span", { class: "detail", title: problem.detail }, problem.detail),
          problem.dismiss && h("button", { type: "button", "aria-label": `Dismiss: ${problem.title}`, onclick: () => {
            dismiss(problem.dismiss);
            this.context.draw();
          } }, "Dismiss")))),
      problems.length > shown.length && h("button", {
        type: "button",
        onclick: () => { this.allProblems = true; this.context.draw(); },
      }, `Show all ${problems.length}`));
  }

  cards(jobs) {
    const running = jobs.filter((job) => job.state === "RUNNING" || job.state === "RECOVERING").length;
    return h("section", { key: "running", "aria-labelledby": "running-title" },
      h("h2", { id: "running-title" }, "Running"),
      running === 0 && h("p", null, "No job runs."),
      h("ul", { class: "cards" }, this.running.map((job) => card(job, this.curves.get(job.jobId)))),
      running > this.running.length && h("p", { class: "soft" },
        `The newest ${this.running.length}; ${count(running - this.running.length, "other job")} in the list below.`));
  }

  setFilter(change) {
    this.filter = { ...this.filter, page: 0, ...change };
    this.context.draw();
  }

  list(jobs) {
    const { text, state, sort, page } = this.filter;
    const matching = jobs.filter((job) => (!state || job.state === state) && (!text || matchesText(job, text)))
      .sort(SORTS[sort]);
    const pages = Math.max(1, Math.ceil(matching.length / ROWS));
    const here = Math.min(page, pages - 1);
    const rows = matching.slice(here * ROWS, (here + 1) * ROWS);
    return h("section", { key: "all", "aria-labelledby": "all-title" },
      h("h2", { id: "all-title" }, "All jobs"),
      h("form", { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault() },
        h("label", null, "Filter ", h("input", { type: "search", value: text, placeholder: "name, id, owner, label=value",
          oninput: (event) => this.setFilter({ text: event.target.value.trim() }) })),
        h("label", null, "State ", h("select", { value: state, onchange: (event) => this.setFilter({ state: event.target.value }) },
          h("option", { value: "" }, "any"),
          [...NOT_ENDED, "SUCCEEDED", "FAILED", "CANCELLED"].map((each) => h("option", { value: each, key: each }, each.toLowerCase())))),
        h("label", null, "Sort by ", h("select", { value: sort, onchange: (event) => this.setFilter({ sort: event.target.value }) },
          Object.keys(SORTS).map((each) => h("option", { value: each, key: each }, each)))),
        h("button", {
          type: "button",
          class: "primary",
          disabled: this.chosen.size < 2,
          onclick: () => this.context.navigate(`/compare${queryOf({ jobs: [...this.chosen].join(",") })}`),
        }, this.chosen.size < 2 ? "Compare: tick two jobs" : `Compare ${this.chosen.size} jobs`)),
      h("p", { class: "soft", role: "status" }, `${count(matching.length, "job")}${matching.length < jobs.length ? ` of ${formatNumber(jobs.length)}` : ""}`),
      table("Table of jobs", this.columns(), rows, (job) => job.jobId),
      pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of jobs" },
        h("button", { type: "button", disabled: here === 0, onclick: () => this.setFilter({ page: here - 1 }) }, "Previous"),
        h("span", null, `page ${here + 1} of ${pages}`),
        h("button", { type: "button", disabled: here === pages - 1, onclick: () => this.setFilter({ page: here + 1 }) }, "Next")));
  }

  columns() {
    const choose = (job, chosen) => {
      if (chosen) this.chosen.add(job.jobId); else this.chosen.delete(job.jobId);
      this.context.draw();
    };
    return [
      { name: "compare", heading: h("span", { class: "hidden" }, "compare"), cell: (job) => h("input", {
        type: "checkbox",
        "aria-label": `Compare ${job.spec?.name ?? ""} ${job.jobId}`,
        checked: this.chosen.has(job.jobId),
        onchange: (event) => choose(job, event.target.checked),
      }) },
      { name: "job", class: "name", cell: (job) => [jobLink(job), " ", h("span", { class: "soft id" }, job.jobId)] },
      { name: "state", cell: (job) => stateBadge(job.state) },
      { name: "step", numeric: true, class: "wide", cell: (job) => {
        const { step, totalSteps } = job.progress ?? {};
        return toNumber(totalSteps) ? `${formatNumber(toNumber(step))} / ${formatNumber(toNumber(totalSteps))}` : "–";
      } },
      { name: "training loss", numeric: true, cell: (job) => formatFigure(job.progress?.loss) },
      { name: "held-out metric", class: "whole", cell: (job) => {
        const metric = lastMetric(job);
        return metric ? `${metric.metric} ${metric.value}` : "–";
      } },
      { name: "owner", class: "wide", cell: (job) => job.spec?.owner ?? "" },
      { name: "labels", class: "wide", cell: (job) => Object.entries(job.spec?.labels ?? {}).map(([name, value]) => (
        h("span", { class: "label", key: name }, `${name}=${value}`))) },
      { name: "submitted", class: "wide", cell: (job) => formatTime(job.submittedUnixMs) },
    ];
  }
}

export function homeView(context) {
  return new Home(context);
}
