// One job: its state, and a tab for each kind of thing that is known of it.
import { api, ApiError } from "./api.js";
import { askToCancel, askToDescribe } from "./change_job.js";
import { FIRST_SETTINGS } from "./controls.js";
import { h } from "./dom.js";
import { marksOf } from "./events.js";
import { count, formatDuration, formatFigure, formatNumber, formatTime, toNumber } from "./format.js";
import { History } from "./history.js";
import { curveData, curvesTab } from "./job_curves.js";
import { ALL_EVENTS, eventsTab } from "./job_events.js";
import { facts, stepsOf } from "./job_card.js";
import { expertsTab, hasExperts, starvingExperts } from "./job_experts.js";
import { JobLog } from "./job_log.js";
import { slotsTab } from "./job_slots.js";
import { slotCurveData, slotGroups, slotSeries } from "./slot_curves.js";
import { checkpointsTab, collectivesTab, configurationTab, tasksTab } from "./job_tables.js";
import { goodputText, labels, lastMetric, stateBadge } from "./job_words.js";
import { hasEnded, reasonOf, slowSlots } from "./problems.js";
import { endOf } from "./series.js";

const SERIES = ["train/*", "held_out/*", "speed/*", "staleness/*"];
const MOST_POINTS = 2000;
const MOST_POINTS_OF_SLOT = 256;
// Checkpoints are read from disk: once in so many polls.
const EVERY_CHECKPOINTS = 10;
const TABS = {
  curves: "Curves",
  experts: "Experts",
  slots: "Slots",
  tasks: "Tasks and shards",
  collectives: "Collectives",
  checkpoints: "Checkpoints",
  log: "Log",
  configuration: "Configuration",
  events: "Events",
};

class JobView {
  constructor(context) {
    this.context = context;
    this.id = context.route.job;
    this.settings = FIRST_SETTINGS;
    this.history = new History(this.id, SERIES, MOST_POINTS);
    this.log = new JobLog(this.id, () => { context.draw(); context.poll(); });
    const tab = context.route.query.get("tab");
    // Without one, the job's state says which (poll).
    this.tab = tab in TABS ? tab : undefined;
    this.eventFilter = ALL_EVENTS;
    this.drawnLoads = {};
    this.turn = 0;
  }

  title() {
    return this.job?.spec?.name || this.id;
  }

  async poll() {
    const ended = this.job && hasEnded(this.job);
    // Once more after the end, which may have come with news.
    if (!ended || !this.complete) {
      const [job, events] = await Promise.all([api.job(this.id), api.events(this.id), this.history.poll()]);
      this.complete = ended;
      this.job = job;
      this.events = events.events ?? [];
    }
    this.firstTab ??= this.job.state === "FAILED" ? "log" : "curves";
    this.tab ??= this.firstTab;
    if (!this.tabNames().includes(this.tab)) this.tab = this.firstTab;
    if (this.tab === "log") await this.log.poll();
    if (this.tab === "slots") await this.pollSlots(ended);
    await this.pollCheckpoints();
  }

  // Reads which checkpoints there are, for their table and for the charts' marks.
  async pollCheckpoints() {
    const listed = this.tab === "checkpoints";
    const marked = (this.tab === "curves" || this.tab === "slots") && this.job.checkpointUri && !(this.complete && this.checkpoints);
    if (!(listed || marked) || this.turn++ % EVERY_CHECKPOINTS !== 0) return;
    const unixMs = Number(this.events.at(-1)?.unixMs ?? 0);
    try {
      this.checkpoints = (await api.checkpoints(this.id)).checkpoints ?? [];
    } catch (error) {
      // Charts can be drawn without.
      if (listed || !(error instanceof ApiError)) throw error;
      return;
    }
    this.keptCheckpoints = { clocks: new Set(this.checkpoints.map(({ clock }) => toNumber(clock))), unixMs };
  }

  // Reads the series of the slots that are shown.
  async pollSlots(ended) {
    const groups = slotGroups(this.job);
    this.group ??= Math.max(0, groups.findIndex((group) => (this.job.slowSlots ?? []).some(({ slot }) => group.includes(toNumber(slot)))));
    if (this.slotHistory?.group !== this.group) {
      this.slotHistory = new History(this.id, slotSeries(groups[this.group]), MOST_POINTS_OF_SLOT, () => true);
      this.slotHistory.group = this.group;
    }
    if (ended && this.slotHistory.whole) return;
    await this.slotHistory.poll();
    this.slotHistory.whole = ended;
  }

  select(tab) {
    this.tab = tab;
    this.turn = 0;
    this.context.rename(tab === this.firstTab ? location.pathname : `${location.pathname}?tab=${tab}`);
    this.context.draw();
    this.showTab();
    this.context.poll();
  }

  // Scrolls to the chosen tab, where not all of them fit.
  showTab() {
    document.getElementById(`tab-${this.tab}`)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  async readCollectives() {
    try {
      this.collectives = { slots: (await api.collectives(this.id)).slots ?? [] };
    } catch (error) {
      this.collectives = { slots: [], problem: error.message };
    }
    this.context.draw();
  }

  // Curves {charts, marks, settings, onSettings} of a history. Made anew by `make(marks, settings, run)` only when
  // something changed.
  curves(history, make) {
    const last = this.events[this.events.length - 1];
    const key = JSON.stringify([history.version, this.events.length, last?.unixMs, [...this.keptCheckpoints?.clocks ?? []], this.settings]);
    if (key !== history.drawn?.key) {
      const marks = marksOf(this.events, history.marks, this.keptCheckpoints);
      history.drawn = { key, marks, charts: make(marks, this.settings, {
        batchSize: toNumber(this.job.spec?.batchSize) || 1,
        startMs: toNumber(this.job.startedUnixMs) || toNumber(this.job.submittedUnixMs),
      }) };
    }
    return { ...history.drawn, settings: this.settings, onSettings: (settings) => {
      this.settings = settings;
      this.context.draw();
    } };
  }

  draw() {
    if (!this.job) return [h("p", null, "Reading …")];
    if (!this.drawn) {
      this.drawn = true;
      requestAnimationFrame(() => this.showTab());
    }
    return [this.head(), this.tabs(), h("div", {
      key: "panel", role: "tabpanel", id: "panel", "aria-labelledby": `tab-${this.tab}`, class: "panel",
    }, h("div", { key: this.tab }, this.panel()))];
  }

  head() {
    const { job } = this;
    const progress = job.progress ?? {};
    const metric = lastMetric(job);
    // As the curve's legend says it.
    const end = (series, otherwise) => endOf(this.history.series.get(series)) ?? otherwise;
    const figure = (value) => value !== undefined && formatFigure(value);
    const known = [
      ["training loss", figure(end("train/loss", progress.loss))],
      [`held-out ${metric?.metric}`, metric?.value],
      ...(job.best ? [["best", `${formatFigure(job.best.value)} at step ${formatNumber(toNumber(job.best.clock))}`]] : []),
      ["examples/s", figure(end("speed/examples_per_second", progress.examplesPerSecond || undefined))],
      ["submitted", formatTime(job.submittedUnixMs)],
      ["ended", hasEnded(job) && formatTime(job.finishedUnixMs)],
      ["left", !hasEnded(job) && progress.secondsLeft && formatDuration(progress.secondsLeft)],
      ["trained", progress.trainingSeconds && formatDuration(progress.trainingSeconds)],
      ["time", goodputText(job)],
      ["staleness", toNumber(progress.maxStaleness) > 0 && `${formatFigure(progress.meanStaleness)} (at most ${formatNumber(progress.maxStaleness)})`],
    ];
    const slow = slowSlots(job), starving = starvingExperts(job);
    return h("section", { key: "head", "aria-label": "State" },
      h("p", null, stateBadge(job.state), ` ${job.jobId} · ${job.spec?.owner ?? ""} · ${count(toNumber(job.spec?.workers) || 1, "slot")} `,
        labels(job)),
      job.spec?.description && h("p", { class: "description" }, job.spec.description),
      this.context.page()?.cancel && h("p", null, h("button", {
        type: "button",
        onclick: () => askToDescribe(this.id, this.title(), job.spec?.description ?? "", () => { this.complete = false; this.context.poll(); }),
      }, job.spec?.description ? "Change the description …" : "Describe …")),
      job.waitingFor && h("p", { class: "problem warning" }, `Waits for: ${job.waitingFor}`),
      slow.length > 0 && h("p", { class: "problem warning" }, `Slow: ${slow.slice(0, 3).join("; ")}${slow.length > 3 ? `; and ${slow.length - 3} more` : ""}`),
      starving && h("p", { class: "problem warning" }, starving),
      (job.damagedCheckpoints ?? []).map(({ clock, damage }) => h("p", { class: "problem error", key: `damage ${clock}` },
        `The checkpoint at clock ${clock ?? 0} is damaged: ${damage}`)),
      job.message && h("p", { class: job.state === "FAILED" ? "problem error" : "soft" },
        hasEnded(job) ? reasonOf(job) : `Last event: ${job.message}`),
      job.traceback && h("pre", { class: "log traceback", tabindex: "0", role: "region", "aria-label": "Traceback" }, h("div", null, job.traceback)),
      stepsOf(progress, job.recovery && !hasEnded(job) && ` · if a daemon is lost: ${job.recovery}`),
      facts(known),
      this.context.page()?.cancel && !hasEnded(job) && h("button", {
        type: "button",
        class: "danger",
        onclick: () => askToCancel(this.id, this.title(), () => this.context.poll()),
      }, "Cancel …"));
  }

  // Only models with experts have their tab.
  tabNames() {
    return Object.keys(TABS).filter((name) => name !== "experts" || hasExperts(this.job));
  }

  tabs() {
    const names = this.tabNames();
    const onKey = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      const next = names[(names.indexOf(this.tab) + step + names.length) % names.length];
      this.select(next);
      document.getElementById(`tab-${next}`).focus();
      event.preventDefault();
    };
    return h("div", { key: "tabs", role: "tablist", "aria-label": "What is known of the job", onkeydown: onKey }, names.map((name) => h("button", {
      key: name,
      type: "button",
      role: "tab",
      id: `tab-${name}`,
      "aria-selected": String(this.tab === name),
      "aria-controls": this.tab === name ? "panel" : null,
      tabindex: this.tab === name ? "0" : "-1",
      onclick: () => this.select(name),
    }, TABS[name])));
  }

  panel() {
    const { job } = this;
    switch (this.tab) {
      case "experts": return expertsTab(job, this.drawnLoads);
      case "slots": return this.slots();
      case "tasks": return tasksTab(job);
      case "collectives": return collectivesTab(this.collectives, () => this.readCollectives());
      case "checkpoints": return checkpointsTab(job, this.checkpoints);
      case "log": return this.log.draw(Array.from({ length: toNumber(job.spec?.workers) || 1 }, (_, slot) => slot));
      case "configuration": return configurationTab(job);
      case "events": return eventsTab(this.events, this.eventFilter, (filter) => {
        this.eventFilter = filter;
        this.context.draw();
      });
      default:
        return curvesTab(this.curves(this.history, (...how) => curveData(this.history, ...how)));
    }
  }

  slots() {
    const history = this.slotHistory ?? new History(this.id, [], 0, () => true), groups = slotGroups(this.job);
    return slotsTab(this.job, {
      all: this.allSlots,
      onAll: () => { this.allSlots = true; this.context.draw(); },
      over: this.curves(history, (...how) => slotCurveData(history, groups[history.group ?? 0], ...how)),
      groups,
      group: this.group ?? 0,
      onGroup: (group) => { this.group = group; this.context.poll(); },
    });
  }
}

export function jobView(context) {
  return new JobView(context);
}
