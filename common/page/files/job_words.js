// How lists and heads name a job: its link, its state, its labels, its last evaluation.
import { h } from "./dom.js";
import { count, formatFigure, toNumber } from "./format.js";

// Returns the last evaluation's {metric, value} as texts; undefined: there is none, or it has no value.
export function lastMetric(job) {
  const last = job.evaluations?.[job.evaluations.length - 1];
  if (!last || last.value === undefined) return undefined;
  return { metric: last.metric.replace(/_/g, " "), value: formatFigure(last.value) };
}

// Says how the time since the first step was spent; undefined: there is none yet. What took none is left out.
export function goodputText({ goodput }) {
  if (!(goodput?.seconds > 0)) return undefined;
  const share = (seconds, what) => seconds > 0 && `${(100 * seconds / goodput.seconds).toFixed(1)} % ${what}`;
  return [
    share(goodput.productiveSeconds, "productive"),
    share(goodput.redoneSeconds, `redone (${count(toNumber(goodput.redoneSteps), "step")})`),
    share(goodput.waitingSeconds, "waiting"),
    share(goodput.evaluationSeconds, "evaluations"),
    share(goodput.checkpointSeconds, "checkpoints"),
  ].filter(Boolean).join(", ");
}

export function stateBadge(state) {
  return h("span", { class: `state ${state}` }, (state ?? "").toLowerCase());
}

export function jobLink(job) {
  return h("a", { href: `/jobs/${encodeURIComponent(job.jobId)}` }, job.spec?.name || job.jobId);
}

// Returns the labels as people write them, such as "team=vision".
export function labelTexts(job) {
  return Object.entries(job.spec?.labels ?? {}).map(([name, value]) => `${name}=${value}`);
}

// Describes the job's labels, at most `most` of them; the others are told of in a text that appears over their number.
export function labels(job, most = Infinity) {
  const texts = labelTexts(job);
  const left = texts.slice(most);
  return [
    texts.slice(0, most).map((text) => h("span", { class: "label", key: text, title: text }, text)),
    left.length > 0 && h("span", { class: "soft more", key: "more", title: left.join("\n") }, `+${left.length}`),
  ];
}
