// One search: the best objective so far, its rungs, parallel coordinates of its trials, a table of them, and their curves. A
// trial that is pointed at or selected is highlighted in all of them.
import { api } from "./api.js";
import { mountChart } from "./chart.js";
import { h } from "./dom.js";
import { count, formatFigure, formatNumber, formatTime, toNumber } from "./format.js";
import { mountParallelAxes } from "./parallel_axes.js";
import { MOST_CURVES, objectiveSeries, TrialCurves } from "./search_curves.js";
import { bestRows, bestSoFar, objectiveAxis, parameterAxes, rungSummary, signOf, sortRows } from "./search_trials.js";
import { objectiveName, searchBadge, searchEnded, searchSentence } from "./search_words.js";
import { table } from "./table.js";
import { trialTable, trialText } from "./trial_table.js";
import { TrialPages } from "./trial_pages.js";

// Curves that are shown before somebody ticks trials.
const FIRST_CURVES = 8;
const CURVE_SETTINGS = { axis: "steps", log: false, smoothing: 0 };

const number = (value) => formatNumber(toNumber(value));

class Search {
  constructor(context) {
    this.context = context;
    this.id = context.route.search;
    this.pages = new TrialPages(this.id);
    this.ticked = new Set();
    this.sort = { column: "objective", descending: false };
    this.tablePage = 0;
  }

  title() {
    return this.search?.spec?.name || this.id;
  }

  async poll() {
    // All that an ended search has is known once its trials were read after its end.
    const complete = this.search && searchEnded(this.search) && this.pages.stale.size === 0;
    if (!complete) {
      const search = await api.search(this.id);
      const first = !this.search;
      this.search = search;
      if (first) this.sort.descending = signOf(search) < 0;
      await this.pages.poll(search);
      this.derive();
    }
    if (this.curvesOpen) await this.curves.poll(this.curveRows());
  }

  // Makes what is drawn of all trials: once for each change of them.
  derive() {
    this.curves ??= new TrialCurves(objectiveSeries(this.search));
    if (this.rows && this.version === this.pages.version) return;
    this.version = this.pages.version;
    this.rows = this.pages.rows();
    const objective = objectiveAxis(this.rows, objectiveName(this.search));
    this.axes = [...parameterAxes(this.search.spec?.parameters), ...(objective ? [objective] : [])];
    this.rungs = rungSummary(this.rows, signOf(this.search));
    this.best = bestSoFar(this.rows, signOf(this.search));
    this.bestChart = this.curveChart = this.sorted = undefined;
  }

  highlighted() {
    return this.pointed ?? this.selected;
  }

  point(trial) {
    if (trial === this.pointed) return;
    this.pointed = trial;
    this.context.draw();
  }

  // Selects a trial, or none if it is selected; the table turns to its page.
  select(trial, turn) {
    this.selected = trial === this.selected ? undefined : trial;
    if (turn && this.selected !== undefined) this.tablePage = undefined;
    this.context.draw();
  }

  curveRows() {
    if (this.ticked.size === 0) return bestRows(this.rows, signOf(this.search), FIRST_CURVES);
    return this.rows.filter(({ trial }) => this.ticked.has(trial)).slice(0, MOST_CURVES);
  }

  draw() {
    if (!this.rows) return [h("p", null, "Reading …")];
    return [
      this.head(),
      this.rows.length === 0 ? h("p", { key: "no-trials" }, "No trial has begun.") : [
        this.bestSection(),
        this.rungSection(),
        this.parallelSection(),
        this.selectedTrial(),
        this.tableSection(),
        this.curveSection(),
      ],
    ];
  }

  head() {
    const { search } = this;
    const facts = [
      ["state", searchBadge(search)],
      ["trials begun", toNumber(search.spec?.trials) ? `${number(search.begun)} of ${number(search.spec.trials)}` : number(search.begun)],
      ...["running", "completed", "halted", "failed"].map((name) => [name === "completed" ? "done" : name, number(search[name])]),
      ["steps", toNumber(search.spec?.maxSteps) ? `${number(search.steps)} of ${number(search.spec.maxSteps)}` : number(search.steps)],
      ["started", formatTime(search.startedUnixMs)],
      ...(toNumber(search.finishedUnixMs) ? [["ended", formatTime(search.finishedUnixMs)]] : []),
    ];
    return [
      h("p", { key: "sentence", class: "lead" }, searchSentence(search)),
      search.message && h("p", { key: "message", class: `problem ${search.state === "SEARCH_FAILED" ? "error" : "warning"}` }, search.message),
      h("dl", { key: "facts", class: "facts" }, facts.map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value)))),
      toNumber(search.bestTrial) > 0 && h("p", { key: "best" }, "Best so far: ",
        h("button", { type: "button", class: "small", onclick: () => this.select(toNumber(search.bestTrial), true) }, `trial ${number(search.bestTrial)}`),
        ` with ${objectiveName(search)} `, h("strong", null, formatFigure(this.rows.find(({ trial }) => trial === toNumber(search.bestTrial))?.objective)), "."),
    ];
  }

  bestSection() {
    const name = objectiveName(this.search), highlighted = this.highlighted();
    if (!this.bestChart || this.bestChart.highlighted !== highlighted) {
      const row = this.rows.find(({ trial }) => trial === highlighted);
      this.bestChart = {
        highlighted,
        title: `${name[0].toUpperCase()}${name.slice(1)} of trials`,
        axis: "trials",
        log: false,
        span: [],
        marks: row ? [{ x: row.trial, kind: "trial", text: trialText(row, name) }] : [],
        lines: [
          { name: "best so far", colour: 1, x: this.best.x, y: this.best.best },
          { name: "each trial", colour: 0, x: this.best.x, y: this.best.y, apart: true },
        ],
      };
    }
    return h("section", { key: "best-so-far" },
      h("h2", null, "Best so far"),
      this.search.spec?.asha && h("p", { class: "soft" }, "Each trial counts with its objective at the step that it reached. The best trial is chosen among those that got furthest."),
      this.best.x.length === 0 ? h("p", null, "No trial has an objective yet.")
        : h("div", { key: "chart", mount: mountChart, data: this.bestChart }));
  }

  rungSection() {
    if (!this.search.spec?.asha) return null;
    return h("section", { key: "rungs" },
      h("h2", null, "Rungs"),
      table("Rungs", [
        { name: "rung", numeric: true, cell: ({ rung }) => String(rung) },
        { name: "up to step", numeric: true, cell: ({ step }) => (step ? formatNumber(step) : "–") },
        { name: "trials", numeric: true, cell: ({ trials }) => formatNumber(trials) },
        { name: "running", numeric: true, class: "wide", cell: ({ running }) => formatNumber(running) },
        { name: "measured", numeric: true, class: "wide", cell: ({ measured }) => formatNumber(measured) },
        { name: "promoted", numeric: true, cell: ({ promoted }) => formatNumber(promoted) },
        { name: `best ${objectiveName(this.search)}`, numeric: true, cell: ({ best }) => formatFigure(best) },
      ], this.rungs, ({ rung }) => rung));
  }

  parallelSection() {
    return h("section", { key: "parallel" },
      h("h2", null, "Parameters and objective"),
      h("p", { class: "soft" }, "Each line is a trial; the better its objective, the stronger its line. Point at a line, or use the arrow keys, to highlight its trial; click to select it."),
      h("div", { key: "axes", mount: mountParallelAxes, data: {
        title: "Parameters and objective",
        axes: this.axes,
        rows: this.rows,
        sign: signOf(this.search),
        highlighted: this.highlighted(),
        textOf: (row) => trialText(row, objectiveName(this.search)),
        onHighlight: (trial) => this.point(trial),
        onSelect: (trial) => trial !== undefined && this.select(trial, true),
      } }));
  }

  selectedTrial() {
    const row = this.rows.find(({ trial }) => trial === this.selected);
    if (!row) return null;
    return h("section", { key: "selected", "aria-labelledby": "selected-title" },
      h("h2", { id: "selected-title" }, `Trial ${row.trial}`),
      row.failure && h("p", { class: "problem error" }, row.failure),
      h("dl", { class: "facts" }, [...row.draws].map(([field, value]) => h("div", { key: field }, h("dt", null, field), h("dd", null, h("code", null, value))))),
      h("button", { type: "button", class: "small", onclick: () => this.select(row.trial) }, "Deselect"));
  }

  tableSection() {
    return h("section", { key: "trials" },
      h("h2", null, "Trials"),
      trialTable({
        rows: (this.sorted ??= sortRows(this.rows, this.sort)),
        axes: this.axes.filter(({ field }) => field),
        objective: objectiveName(this.search),
        sort: this.sort,
        page: this.tablePage,
        selected: this.selected,
        highlighted: this.highlighted(),
        ticked: this.ticked,
        most: MOST_CURVES,
        onSort: (sort) => {
          this.sort = sort;
          this.sorted = undefined;
          this.tablePage = 0;
          this.context.draw();
        },
        onPage: (page) => { this.tablePage = page; },
        onTurn: (page) => { this.tablePage = page; this.context.draw(); },
        onPoint: (trial) => this.point(trial),
        onSelect: (trial) => this.select(trial),
        onTick: (trial, on) => {
          if (on) this.ticked.add(trial); else this.ticked.delete(trial);
          this.curveChart = undefined;
          this.context.draw();
          this.context.poll();
        },
      }));
  }

  curveSection() {
    return h("details", { key: "curves", open: Boolean(this.curvesOpen), ontoggle: (event) => {
      if (event.target.open === Boolean(this.curvesOpen)) return;
      this.curvesOpen = event.target.open;
      this.context.draw();
      this.context.poll();
    } },
      h("summary", null, h("h2", { class: "inline" }, "Curves")),
      this.curvesOpen && this.curveContent());
  }

  curveContent() {
    const rows = this.curveRows(), highlighted = this.highlighted();
    const key = `${this.curves.version} ${highlighted} ${rows.map(({ trial }) => trial)}`;
    if (!this.curveChart || this.curveKey !== key) {
      this.curveKey = key;
      const name = objectiveName(this.search);
      this.curveChart = { title: `Held-out ${name}`, axis: "steps", log: false, span: [], lines: this.curves.lines(rows, highlighted, CURVE_SETTINGS) };
    }
    return [
      h("p", { key: "which", class: "soft" }, this.ticked.size === 0
        ? `The best ${count(rows.length, "trial")}. Tick up to ${MOST_CURVES} trials in the table to see theirs.` : `${count(rows.length, "ticked trial")}.`),
      this.curveChart.lines.length === 0 ? h("p", { key: "none" }, "There are no curves yet.")
        : h("div", { key: "chart", mount: mountChart, data: this.curveChart }),
    ];
  }
}

export function searchView(context) {
  return new Search(context);
}
