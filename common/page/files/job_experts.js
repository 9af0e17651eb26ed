// The loads of a job's experts: who starves, a heat map by block and expert, and a table of the blocks.
import { h } from "./dom.js";
import { count, formatFigure, formatNumber, toNumber } from "./format.js";
import { loadText, mountHeatMap, MOST } from "./heat_map.js";
import { table } from "./table.js";

// As `muster status` has them: an expert starves below this part of its block's mean, if that is of so many tokens.
const STARVING = 0.1, FEWEST_OF_MEAN = 100;

export function hasExperts(job) {
  return Boolean(job.spec?.model?.transformer?.moe);
}

// Returns the blocks with experts as {block, tokens, sum, mean, least, most, starving}; `least` and `most` are experts,
// `starving` is how many of them starve.
export function loadRows(job) {
  const { experts = 0, blocks = [], tokens = [] } = job.expertLoads ?? {};
  return blocks.map((block, index) => {
    const own = tokens.slice(index * experts, (index + 1) * experts).map(toNumber);
    const sum = own.reduce((all, each) => all + each, 0), mean = sum / experts;
    return {
      block,
      tokens: own,
      sum,
      mean,
      least: own.indexOf(Math.min(...own)),
      most: own.indexOf(Math.max(...own)),
      starving: mean < FEWEST_OF_MEAN ? 0 : own.filter((each) => each < STARVING * mean).length,
    };
  });
}

function remedy({ model, compute }) {
  const { selectionBias, auxiliaryLoss } = model.transformer.moe;
  if (selectionBias) return "raise moe.bias_rate";
  // Devices have no biases.
  return `${auxiliaryLoss > 0 ? "raise" : "set"} moe.auxiliary_loss${compute?.device === "CUDA" ? "" : ", or set moe.selection_bias"}`;
}

// Returns a sentence on the expert that starves most, and how many others do; nothing if none does.
export function starvingExperts(job) {
  const rows = loadRows(job).filter(({ starving }) => starving > 0);
  if (rows.length === 0) return undefined;
  const share = (row) => row.tokens[row.least] / row.mean;
  const worst = rows.reduce((least, row) => (share(row) < share(least) ? row : least));
  const others = rows.reduce((sum, { starving }) => sum + starving, 0) - 1;
  return `Expert ${worst.least} of block ${worst.block} starves (${(100 * share(worst)).toFixed(1)} % of the mean)` +
    `${others > 0 ? `, and ${formatNumber(others)} more` : ""}: ${remedy(job.spec)}.`;
}

function scale() {
  return h("p", { class: "load-scale", key: "scale" }, `1/${MOST} of the mean or less `,
    h("span", { class: "gradient", role: "img", "aria-label": "from blue over grey to orange" }), ` ${MOST} × the mean or more; grey is the mean`);
}

// `drawn` keeps what was made of the last loads, so that the map is painted only when there are others.
export function expertsTab(job, drawn) {
  if (!job.expertLoads) {
    return [h("p", { key: "none" }, "No loads are known: the job has not trained since the coordinator began.")];
  }
  if (drawn.loads !== job.expertLoads) {
    const rows = loadRows(job), experts = job.expertLoads.experts;
    const starving = rows.reduce((sum, row) => sum + row.starving, 0);
    const summary = `${count(rows.length, "block")} of ${count(experts, "expert")}; ${starving === 0 ? "none starves" : `${formatNumber(starving)} of all starve`}.`;
    Object.assign(drawn, { loads: job.expertLoads, map: { title: "Loads by block and expert", summary, experts, rows } });
  }
  const { rows } = drawn.map;
  const of = (row, expert) => `${expert} (${formatFigure(row.tokens[expert] / row.mean)} × the mean)`;
  return [
    h("h2", { key: "title" }, "Loads by block and expert"),
    h("p", { class: "soft", key: "what" }, "Each row is a block, each column an expert. A colour stands for the tokens that all tasks sent the expert in about the last minute of training, over the mean of its block."),
    scale(),
    h("div", { key: "map", mount: mountHeatMap, data: drawn.map }),
    h("h2", { key: "blocks" }, "Blocks"),
    table("Blocks", [
      { name: "block", numeric: true, cell: ({ block }) => String(block) },
      { name: "tokens of an expert, mean", numeric: true, cell: ({ mean }) => formatNumber(Math.round(mean)) },
      { name: "least used expert", numeric: true, cell: (row) => h("span", { title: loadText(row, row.least) }, of(row, row.least)) },
      { name: "most used expert", numeric: true, cell: (row) => h("span", { title: loadText(row, row.most) }, of(row, row.most)) },
      { name: "starving", numeric: true, cell: ({ starving }) => formatNumber(starving) },
    ], rows, ({ block }) => block, ({ starving }) => (starving > 0 ? "error" : null)),
  ];
}
