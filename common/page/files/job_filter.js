// Which jobs a list shows, and in which order. Pure functions.
import { toNumber } from "./format.js";
import { labelTexts } from "./job_words.js";

export const NOT_ENDED = ["PENDING", "PLACING", "RUNNING", "RECOVERING"];
export const STATES = [...NOT_ENDED, "SUCCEEDED", "FAILED", "CANCELLED"];

// Running jobs come first, then those that wait.
const RANKS = { RUNNING: 0, RECOVERING: 0, PLACING: 1, PENDING: 1 };
const rankOf = (job) => RANKS[job.state] ?? 2;

// Jobs whose loss is no number, or that have none, come last.
const lossOf = (job) => {
  const loss = Number(job.progress?.loss ?? NaN);
  return Number.isNaN(loss) ? Number.MAX_VALUE : loss;
};

// In names, 2 comes before 10.
const names = new Intl.Collator("en", { numeric: true });
const newest = (a, b) => toNumber(b.submittedUnixMs) - toNumber(a.submittedUnixMs);

const SORTS = {
  "running first": (a, b) => rankOf(a) - rankOf(b) || newest(a, b),
  newest,
  oldest: (a, b) => newest(b, a),
  name: (a, b) => names.compare(a.spec?.name ?? "", b.spec?.name ?? "") || newest(a, b),
  "training loss": (a, b) => lossOf(a) - lossOf(b) || newest(a, b),
};

export const SORT_NAMES = Object.keys(SORTS);

// Shows every job.
export const NO_FILTER = { text: "", state: "", sort: SORT_NAMES[0], page: 0 };

// What words are looked for in, made once for each job: a letter typed searches thousands.
const searched = new WeakMap();

function searchedText(job) {
  let text = searched.get(job);
  if (text === undefined) {
    text = [job.jobId, job.spec?.name, job.spec?.owner, ...labelTexts(job)].join(" ").toLowerCase();
    searched.set(job, text);
  }
  return text;
}

// Returns the jobs that the filter lets pass, in its order: each word of `text` is in the job's id, name, owner or labels.
export function filterJobs(jobs, { text, state, sort }) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (job) => (!state || job.state === state) && words.every((word) => searchedText(job).includes(word));
  return jobs.filter(matches).sort(SORTS[sort]);
}

// Returns the filter that an address names.
export function filterOf(query) {
  const one = (name, values) => (values.includes(query.get(name)) ? query.get(name) : NO_FILTER[name]);
  const page = Number(query.get("page") ?? 1);
  return {
    text: query.get("text") ?? "",
    state: one("state", STATES),
    sort: one("sort", SORT_NAMES),
    page: Number.isInteger(page) && page > 0 ? page - 1 : 0,
  };
}

// Returns the parameters of the address that names the filter; what is as usual is undefined.
export function parametersOf(filter) {
  const changed = Object.entries(filter).filter(([name, value]) => value !== NO_FILTER[name]);
  return Object.fromEntries(changed.map(([name, value]) => [name, name === "page" ? value + 1 : value]));
}
