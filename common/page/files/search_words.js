// How lists and heads name a search: its state, its algorithm, its objective.
import { h } from "./dom.js";
import { count, toNumber } from "./format.js";

// Classes that states of searches and trials share with those of jobs.
const CLASSES = { RUNNING: "RUNNING", COMPLETED: "SUCCEEDED", FAILED: "FAILED", PAUSED: "PENDING", PENDING: "PENDING", HALTED: "CANCELLED", CANCELLED: "CANCELLED" };
const WORDS = { PENDING: "waiting", COMPLETED: "done" };

function badge(state) {
  return h("span", { class: `state ${CLASSES[state] ?? ""}` }, WORDS[state] ?? state.toLowerCase());
}

// Describes the state of a search, such as SEARCH_RUNNING.
export function searchBadge({ state }) {
  return badge((state ?? "").replace("SEARCH_", ""));
}

export function trialBadge({ state }) {
  return badge(state);
}

export function searchEnded({ state }) {
  return ["SEARCH_COMPLETED", "SEARCH_FAILED", "SEARCH_CANCELLED"].includes(state);
}

export function objectiveName({ objective }) {
  return (objective?.metric || "objective").replace(/_/g, " ");
}

// Says how trials are chosen and compared.
export function searchSentence(search) {
  const { asha, grid, parallel, job } = search.spec ?? {};
  const way = asha ? `Successive halving from ${count(toNumber(asha.minSteps), "step")} to ${count(toNumber(job?.stop?.steps), "step")}, by ${toNumber(asha.reductionFactor) || 4}`
    : grid ? "Grid" : "Random search";
  const aim = search.objective?.direction === "MAXIMIZE" ? "largest" : "smallest";
  return `${way}, for the ${aim} ${objectiveName(search)}; ${count(toNumber(parallel) || 1, "trial")} at a time.`;
}
