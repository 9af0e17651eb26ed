// The first page: the cluster in one sentence, running jobs as cards, what is wrong, and all jobs.
import { allJobs, api, queryOf, unlessMissing } from "./api.js";
import { dismiss, dismissedJobs } from "./dismissed.js";
import { h } from "./dom.js";
import { count, formatFigure, formatNumber, formatTime, toNumber } from "./format.js";
import { jobCard } from "./job_card.js";
import { filterJobs, filterOf, NO_FILTER, NOT_ENDED, parametersOf, SORT_NAMES, STATES } from "./job_filter.js";
import { jobLink, labels, lastMetric, stateBadge } from "./job_words.js";
import { clusterSentence, findProblems, hasEnded, jobsSentence } from "./problems.js";
import { toColumns } from "./series.js";
import { table } from "./table.js";
import { MOST_COMPARED } from "./view_compare.js";

const MOST_JOBS = 5000;
// A phone shows one card below another.
const FEW_CARDS = 4, FEW_ON_PHONE = 2, MOST_CARDS = 12;
const MOST_PROBLEMS = 3;
const MOST_LABELS = 2;
const ROWS = 50;
const NEWEST = 50;
// Jobs that ended unseen are asked for one by one, as long as they are no more.
const MOST_ASKED = 20;
// Milliseconds after a letter in which the next one may come, before the list is drawn.
const BETWEEN_LETTERS = 80;
// Numbers of polls after which what changes slowly is read again.
const EVERY_LIST = 30, EVERY_SPARKLINE = 3;

class Home {
  constructor() {
    this.jobs = new Map();
    this.running = [];
    this.curves = new Map();
    this.chosen = new Set();
    this.cards = matchMedia("(max-width: 40rem)").matches ? FEW_ON_PHONE : FEW_CARDS;
  }

  // Shows the list that the address names.
  open(context) {
    this.context = context;
    this.filter = filterOf(context.route.query);
    this.polls = 0;
    return this;
  }

  title() {
    return "Jobs";
  }

  async poll() {
    const turn = this.polls++;
    const [cluster, active, running, newest] = await Promise.all([
      api.cluster(),
      allJobs({ view: "SHORT", states: NOT_ENDED, pageSize: 500 }, MOST_JOBS),
      api.jobs({ view: "WHOLE", states: ["RUNNING", "RECOVERING"], pageSize: this.cards, newestFirst: true }),
      api.jobs({ view: "SHORT", pageSize: NEWEST, newestFirst: true }),
    ]);
    this.cluster = cluster;
    this.running = running.jobs ?? [];
    const fresh = new Map([...active.jobs, ...(newest.jobs ?? [])].map((job) => [job.jobId, job]));
    for (const [id, job] of fresh) this.jobs.set(id, job);
    // A job that no longer is active, and is too old to be among the newest, has ended unseen.
    const unseen = [...this.jobs.values()].filter((job) => !hasEnded(job) && !fresh.has(job.jobId));
    if (!this.complete || turn % EVERY_LIST === 0 || unseen.length > MOST_ASKED) await this.readAll(fresh);
    else await Promise.all(unseen.map(({ jobId }) => this.readJob(jobId)));
    for (const id of this.chosen) if (!this.jobs.has(id)) this.chosen.delete(id);
    await Promise.all(this.running.map((job, index) => this.pollCard(job.jobId, turn + index)));
    this.derive();
  }

  // Reads the newest jobs; `active` ones may be older.
  async readAll(active) {
    // Old jobs take a while to read.
    if (!this.complete) {
      this.derive();
      this.context.draw();
    }
    const { jobs, more } = await allJobs({ view: "SHORT", pageSize: 500, newestFirst: true }, MOST_JOBS);
    this.jobs = new Map([...active, ...jobs.map((job) => [job.jobId, job])]);
    this.complete = true;
    this.olderLeft = more;
  }

  async readJob(id) {
    const job = await api.job(id).catch(unlessMissing);
    if (job) this.jobs.set(id, job); else this.jobs.delete(id);
  }

  async pollCard(job, turn) {
    if (turn % EVERY_SPARKLINE === 0 || !this.curves.has(job)) {
      const reply = await api.metrics(job, { series: "train/loss", maxPoints: 120 }).catch(unlessMissing);
      this.curves.set(job, toColumns(reply?.series?.[0]?.points));
    }
  }

  // Makes what is drawn of all jobs: once for each poll, and not for each letter typed. Jobs whose tasks are known have
  // them.
  derive() {
    const whole = new Map(this.running.map((job) => [job.jobId, job]));
    this.known = [...this.jobs.values()].map((job) => whole.get(job.jobId) ?? job);
    this.wrong = findProblems(this.cluster, this.known, Date.now(), dismissedJobs());
  }

  draw() {
    if (!this.known) return [h("p", null, "Reading …")];
    const jobs = this.known;
    return [
      h("p", { class: "lead", key: "sentence" }, `${clusterSentence(this.cluster)}; ${jobsSentence(jobs)}. `,
        h("a", { href: "#all-title" }, "All jobs")),
      this.runningJobs(jobs),
      this.problems(),
      this.list(jobs),
    ];
  }

  runningJobs(jobs) {
    const running = jobs.filter((job) => job.state === "RUNNING" || job.state === "RECOVERING").length;
    const shown = this.running.length, others = running - shown, more = Math.min(running, MOST_CARDS) - shown;
    return h("section", { key: "running", "aria-labelledby": "running-title" },
      h("h2", { id: "running-title" }, "Running"),
      running === 0 && h("p", null, "No job runs."),
      h("ul", { class: "cards" }, this.running.map((job) => jobCard(job, this.curves.get(job.jobId)))),
      others > 0 && h("p", { class: "soft" }, `The newest ${shown}; ${count(others, "other job")} in the list below. `,
        this.cards < MOST_CARDS && more > 0 && this.more(`Show ${more} more`, () => { this.cards = MOST_CARDS; this.context.poll(); })));
  }

  more(text, onclick) {
    return h("button", { type: "button", class: "small", onclick }, text);
  }

  problems() {
    const problems = this.wrong;
    const shown = this.allProblems ? problems : problems.slice(0, MOST_PROBLEMS);
    const failed = shown.filter((problem) => problem.dismiss);
    const show = (all) => { this.allProblems = all; this.context.draw(); };
    const dismissAll = (some) => {
      for (const problem of some) dismiss(problem.dismiss);
      this.derive();
      this.context.draw();
    };
    return h("section", { key: "problems", "aria-labelledby": "wrong" },
      h("h2", { id: "wrong" }, "What is wrong"),
      problems.length === 0 ? h("p", { class: "fine" }, "Nothing is wrong.") : h("ul", { class: "problems" },
        shown.map((problem) => h("li", { class: `problem ${problem.level}`, key: problem.key },
          h("a", { href: problem.href, onclick: problem.state && ((event) => this.showList(event, { state: problem.state })) },
            problem.name && h("span", { class: "who" }, problem.name), h("span", { class: "what" }, `${problem.name && " "}${problem.what}`)),
          h("span", { class: "detail", title: problem.detail }, problem.detail),
          problem.dismiss && h("button", { type: "button", "aria-label": `Dismiss: ${problem.title}`, onclick: () => dismissAll([problem]) }, "Dismiss")))),
      problems.length > MOST_PROBLEMS && h("p", null,
        this.more(this.allProblems ? "Show fewer" : `Show all ${problems.length}`, () => show(!this.allProblems)), " ",
        this.allProblems && failed.length > 1 && this.more(`Dismiss all ${failed.length} failures`, () => dismissAll(failed))));
  }

  setFilter(change) {
    this.changeFilter(change);
    this.context.draw();
  }

  changeFilter(change) {
    this.filter = { ...this.filter, page: 0, ...change };
    this.context.rename(`/${queryOf(parametersOf(this.filter))}`);
  }

  // Letters that come fast are drawn together.
  typeFilter(text) {
    this.changeFilter({ text });
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.context.draw(), BETWEEN_LETTERS);
  }

  // Follows a link to the list of some jobs, which is on this page.
  showList(event, change) {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    this.setFilter({ ...NO_FILTER, ...change });
    const title = document.getElementById("all-title");
    title.scrollIntoView();
    title.focus();
  }

  list(jobs) {
    const { text, state, sort, page } = this.filter;
    const matching = filterJobs(jobs, this.filter);
    const pages = Math.max(1, Math.ceil(matching.length / ROWS));
    const here = Math.min(page, pages - 1);
    const rows = matching.slice(here * ROWS, (here + 1) * ROWS);
    return h("section", { key: "all", "aria-labelledby": "all-title" },
      h("h2", { id: "all-title", tabindex: "-1" }, "All jobs"),
      h("form", { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault() },
        h("label", null, "Filter ", h("input", { type: "search", value: text, placeholder: "name, id, owner, label=value",
          oninput: (event) => this.typeFilter(event.target.value.trim()) })),
        h("label", null, "State ", h("select", { value: state, onchange: (event) => this.setFilter({ state: event.target.value }) },
          h("option", { value: "" }, "any"),
          STATES.map((each) => h("option", { value: each, key: each }, each.toLowerCase())))),
        h("label", null, "Sort by ", h("select", { value: sort, onchange: (event) => this.setFilter({ sort: event.target.value }) },
          SORT_NAMES.map((each) => h("option", { value: each, key: each }, each)))),
        this.comparing()),
      h("p", { class: "soft", role: "status" }, `${count(matching.length, "job")}${matching.length < jobs.length ? ` of ${formatNumber(jobs.length)}` : ""}` +
        `${this.complete ? "" : "; reading the older ones …"}`),
      this.olderLeft && h("p", { class: "soft", key: "older" },
        `Only the newest ${formatNumber(MOST_JOBS)} jobs, and older ones that have not ended, are listed and searched here. To find others: `,
        h("code", null, "muster list --name 'NAME*'"), "."),
      table("Table of jobs", this.columns(), rows, (job) => job.jobId),
      pages > 1 && h("nav", { class: "pages", "aria-label": "Pages of jobs" },
        h("button", { type: "button", disabled: here === 0, onclick: () => this.setFilter({ page: here - 1 }) }, "Previous"),
        h("span", null, `page ${here + 1} of ${pages}`),
        h("button", { type: "button", disabled: here === pages - 1, onclick: () => this.setFilter({ page: here + 1 }) }, "Next")));
  }

  comparing() {
    const { size } = this.chosen;
    const text = size < 2 ? "Compare: tick two jobs" : size > MOST_COMPARED ? `Compare: at most ${MOST_COMPARED} of ${size}` : `Compare ${size} jobs`;
    return h("span", { class: "comparing" },
      h("button", {
        type: "button",
        class: "primary",
        disabled: size < 2 || size > MOST_COMPARED,
        onclick: () => this.context.navigate(`/compare${queryOf({ jobs: [...this.chosen].join(",") })}`),
      }, text),
      size > 0 && h("button", { type: "button", onclick: () => { this.chosen.clear(); this.context.draw(); } }, "Untick all"));
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
        return toNumber(totalSteps) ? `${formatNumber(toNumber(step))} / ${formatNumber(toNumber(totalSteps))}` : step ? formatNumber(step) : "–";
      } },
      { name: "training loss", numeric: true, cell: (job) => formatFigure(job.progress?.loss) },
      { name: "held-out metric", class: "wide whole", cell: (job) => {
        const metric = lastMetric(job);
        return metric ? `${metric.metric} ${metric.value}` : "–";
      } },
      { name: "owner", class: "wide", cell: (job) => job.spec?.owner ?? "" },
      { name: "labels", class: "wide labels", cell: (job) => labels(job, MOST_LABELS) },
      { name: "submitted", class: "wide whole", cell: (job) => formatTime(job.submittedUnixMs) },
    ];
  }
}

let home;

// What is known of the jobs, and which are ticked, stays while other pages are seen.
export function homeView(context) {
  home ??= new Home();
  return home.open(context);
}
