// The table of a search's trials, a page of it at a time.
import { h } from "./dom.js";
import { formatFigure, formatNumber } from "./format.js";
import { shortField } from "./search_trials.js";
import { trialBadge } from "./search_words.js";
import { table } from "./table.js";

const ROWS = 50;
const COUNTS = new Set(["trial", "step"]);

// Returns a drawn value as tables show it: numbers with as many digits as they need.
export function drawText(value) {
  if (value === undefined) return "–";
  return value !== "" && Number.isFinite(Number(value)) ? formatFigure(value).replace(/^(\d+)\.0+$/, "$1") : value;
}

// Returns a trial in words, as what is pointed at is read out.
export function trialText(row, objective) {
  const draws = [...row.draws].map(([field, value]) => `${shortField(field)} ${drawText(value)}`);
  const result = row.failure ? "failed" : `${objective} ${formatFigure(row.objective)}${row.step ? ` at step ${formatNumber(row.step)}` : ""}`;
  return `trial ${row.trial}: ${[result, ...draws].join(", ")}`;
}

// Returns the page that has the selected trial; where `page` is a number, that one, as far as there is one.
export function pageOf(rows, page, selected) {
  const wanted = page ?? Math.floor(Math.max(0, rows.findIndex(({ trial }) => trial === selected)) / ROWS);
  return Math.max(0, Math.min(wanted, Math.ceil(rows.length / ROWS) - 1));
}

// Describes the table and what turns its pages. `rows` are in order; `page` is undefined to show the selected trial's page,
// of which onPage is told.
export function trialTable(shown) {
  const { rows, page, selected, highlighted, onPage, onTurn, onPoint } = shown;
  const pages = Math.max(1, Math.ceil(rows.length / ROWS)), here = pageOf(rows, page, selected);
  if (here !== page) onPage(here);
  const trialOf = (event) => Number(event.target.closest?.("tr")?.querySelector("[data-trial]")?.dataset.trial) || undefined;
  return [
    h("div", { key: "table", onpointerover: (event) => onPoint(trialOf(event)), onpointerleave: () => onPoint(undefined) },
      table("Table of trials", columnsOf(shown), rows.slice(here * ROWS, (here + 1) * ROWS), ({ trial }) => trial,
        ({ trial }) => (trial === highlighted ? "highlighted" : null))),
    pages > 1 && h("nav", { key: "pages", class: "pages", "aria-label": "Pages of trials" },
      h("button", { type: "button", disabled: here === 0, onclick: () => onTurn(here - 1) }, "Previous"),
      h("span", null, `page ${here + 1} of ${pages}`),
      h("button", { type: "button", disabled: here === pages - 1, onclick: () => onTurn(here + 1) }, "Next")),
  ];
}

function columnsOf({ axes, objective, sort, selected, ticked, most, onSort, onSelect, onTick }) {
  const sorted = (column, name, more) => {
    const own = sort.column === column;
    return {
      ...more,
      name,
      numeric: COUNTS.has(column) || more.numeric,
      sorted: own ? (sort.descending ? "descending" : "ascending") : undefined,
      heading: h("button", { type: "button", title: more.title, onclick: () => onSort({ column, descending: own && !sort.descending }) },
        name, own && h("span", { "aria-hidden": "true" }, sort.descending ? " ↓" : " ↑")),
    };
  };
  return [
    sorted("trial", "trial", { cell: ({ trial }) => h("button", {
      type: "button", class: "small", "data-trial": trial, "aria-pressed": String(trial === selected), "aria-label": `Select trial ${trial}`, onclick: () => onSelect(trial),
    }, String(trial)) }),
    { name: "curve", class: "wide", cell: ({ trial }) => h("input", {
      type: "checkbox", "aria-label": `Curve of trial ${trial}`, checked: ticked.has(trial),
      disabled: ticked.size >= most && !ticked.has(trial), onchange: (event) => onTick(trial, event.target.checked),
    }) },
    sorted("state", "state", { cell: trialBadge }),
    sorted("objective", objective, { numeric: true, cell: (row) => formatFigure(row.objective) }),
    sorted("step", "at step", { cell: ({ step }) => (step ? formatNumber(step) : "–") }),
    ...axes.map(({ field, name, numeric }) => sorted(field, name, { title: field, numeric, cell: ({ draws }) => drawText(draws.get(field)) })),
    { name: "jobs", class: "wide whole", cell: ({ jobs }) => jobs.map((job, index) => [index > 0 && " ",
      h("a", { key: job, href: `/jobs/${encodeURIComponent(job)}` }, job)]) },
  ];
}
