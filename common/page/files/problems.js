// Finds what is wrong in a cluster, worst first. Pure functions.
import { count, formatDuration, formatTime } from "./format.js";

const DAY_MS = 24 * 3600 * 1000;

// Returns the job's name and id, as problems name it.
export function jobTitle(job) {
  return job.spec?.name ? `${job.spec.name} (${job.jobId})` : job.jobId;
}

// Returns the names of a job's slow slots with the reason, such as "slot 3 computes 2.1 x as long …".
export function slowSlots(job) {
  return (job.slowSlots ?? []).map(({ slot, reason }) => `slot ${slot ?? 0} ${reason}`);
}

// Returns why a job ended, without what its program printed last.
export function reasonOf(job) {
  const message = job.message ?? "";
  return job.traceback ? message.split("\n")[0] : message;
}

// Returns why a job failed, in one line: the exception of its program, or else the end of its message.
export function lastLine(job) {
  const lines = (job.traceback || job.message || "").split("\n").map((line) => line.trim());
  return lines.filter(Boolean).pop() ?? "";
}

function jobPath(job) {
  return `/jobs/${encodeURIComponent(job.jobId)}`;
}

function problem(level, key, name, what, detail, href) {
  return { level, key, name, what, title: `${name} ${what}`.trim(), detail, href };
}

function jobProblems(job, now, isOver) {
  const problems = [];
  const add = (level, what, detail = "", tab = "") => {
    problems.push(problem(level, `${job.jobId}/${what}`, jobTitle(job), what, detail, jobPath(job) + tab));
    return problems.at(-1);
  };
  if (job.state === "FAILED" && now - Number(job.finishedUnixMs ?? 0) < DAY_MS && !isOver(job)) {
    add("error", "failed", `${formatTime(job.finishedUnixMs, now)}: ${lastLine(job)}`).dismiss = job.jobId;
  }
  if (job.state === "RECOVERING") add("error", "is recovering", job.waitingFor || job.message);
  if (job.state === "RUNNING" && job.waitingFor) add("warning", "is held up", job.waitingFor);
  const slow = slowSlots(job);
  if (slow.length) {
    add("warning", `has ${count(slow.length, "slow slot")}`,
      slow.slice(0, 3).join("; ") + (slow.length > 3 ? "; …" : ""), "?tab=slots");
  }
  for (const { clock, damage } of job.damagedCheckpoints ?? []) {
    add("error", `has a damaged checkpoint at clock ${clock ?? 0}`, damage, "?tab=checkpoints");
  }
  return problems;
}

// Returns what jobs wait for. Those that wait for the same are one problem, however many they are; `state` is theirs.
function waitProblems(jobs) {
  const waits = new Map();
  for (const job of jobs) {
    if (job.state !== "PENDING" && job.state !== "PLACING") continue;
    const key = `${job.state}/${job.waitingFor ?? ""}`;
    if (!waits.has(key)) waits.set(key, []);
    waits.get(key).push(job);
  }
  return [...waits].map(([key, [first, ...others]]) => (others.length === 0
    ? problem("warning", `${first.jobId}/waits`, jobTitle(first), "waits", first.waitingFor ?? "", jobPath(first))
    : { ...problem("warning", key, "", `${count(others.length + 1, "job")} wait`, first.waitingFor ?? "", `/?state=${first.state}`), state: first.state }));
}

// Returns for each name when the last job of this name that succeeded was submitted.
function successes(jobs) {
  const times = new Map();
  for (const { state, spec, submittedUnixMs } of jobs) {
    if (state === "SUCCEEDED" && spec?.name) times.set(spec.name, Math.max(times.get(spec.name) ?? 0, Number(submittedUnixMs ?? 0)));
  }
  return times;
}

// Returns problems {level, key, name, what, title, detail, href}, whose title is name and what, and, where somebody may
// dismiss it, `dismiss`: the job's id; errors first. Of failed jobs those of the last day, except for the `dismissed` ones and those whose name has succeeded since.
export function findProblems(cluster, jobs, now = Date.now(), dismissed = []) {
  const problems = [];
  const succeeded = successes(jobs), seen = new Set(dismissed);
  const isOver = (job) => seen.has(job.jobId) || succeeded.get(job.spec?.name) > Number(job.submittedUnixMs ?? 0);
  // A daemon that was drained and stopped was removed, not lost.
  const drained = new Set((cluster?.drains ?? []).filter(({ partitions }) => !Number(partitions)).map(({ serverId }) => serverId));
  for (const daemon of cluster?.daemons ?? []) {
    if (daemon.live || drained.has(daemon.id)) continue;
    problems.push(problem("error", daemon.id, `${daemon.kind === "SERVER" ? "Server" : "Worker"} ${daemon.id}`, "is lost",
      daemon.lostForMs ? `for ${formatDuration(Number(daemon.lostForMs) / 1000)}, last at ${daemon.address}` : "", "/cluster"));
  }
  for (const drain of cluster?.drains ?? []) {
    if (!drain.waitingFor?.length) continue;
    problems.push(problem("warning", `drain/${drain.serverId}`, `The drain of ${drain.serverId}`, "waits", drain.waitingFor.join("; "), "/cluster"));
  }
  problems.push(...waitProblems(jobs));
  for (const job of jobs) problems.push(...jobProblems(job, now, isOver));
  const rank = { error: 0, warning: 1 };
  return problems.sort((a, b) => rank[a.level] - rank[b.level]);
}

const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

export function hasEnded(job) {
  return ENDED.has(job.state);
}

// Returns one sentence on the cluster.
export function clusterSentence(cluster) {
  const live = (cluster?.daemons ?? []).filter((daemon) => daemon.live);
  const workers = live.filter((daemon) => daemon.kind === "WORKER");
  const servers = live.length - workers.length;
  const sum = (name) => workers.reduce((total, worker) => total + Number(worker[name] ?? 0), 0);
  return `${count(servers, "server")} and ${count(workers.length, "worker")} are live; ` +
    `${sum("slotsUsed")} of ${count(sum("slots"), "slot")} are in use`;
}

// Returns the jobs in half a sentence.
export function jobsSentence(jobs) {
  const running = jobs.filter((job) => job.state === "RUNNING" || job.state === "RECOVERING").length;
  const waiting = jobs.filter((job) => job.state === "PENDING" || job.state === "PLACING").length;
  return `${count(running, "job")} ${running === 1 ? "runs" : "run"} and ${waiting} ${waiting === 1 ? "waits" : "wait"}`;
}
