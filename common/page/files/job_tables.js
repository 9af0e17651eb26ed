// A job's tables: tasks and shard map, collective calls, checkpoints, configuration.
import { fieldName, flatten } from "./differences.js";
import { h } from "./dom.js";
import { formatBytes, formatDuration, formatNumber, formatTime, toNumber } from "./format.js";
import { table } from "./table.js";

export function tasksTab(job) {
  const tasks = job.tasks ?? [], partitions = job.partitions ?? [], split = job.splitGroups ?? [];
  // On the axis `data` alone, slots are data ranks.
  const placed = tasks.some((task) => (task.coordinates ?? []).some((one) => one.axis !== "data"));
  const place = (task) => (task.coordinates ?? []).map((one) => `${one.axis} ${one.position ?? 0}`).join(" ");
  return [
    h("h2", { key: "tasks" }, "Tasks"),
    tasks.length === 0 ? h("p", { key: "no-tasks" }, "The job has no tasks now.") : table("Tasks", [
      { name: "slot", numeric: true, cell: (task) => String(task.slot ?? 0) },
      ...(placed ? [{ name: "coordinates", cell: place }] : []),
      { name: "worker", class: "whole", cell: (task) => task.workerId || "–" },
      { name: "state", cell: (task) => h("span", { class: `state ${task.state}` }, (task.state ?? "").toLowerCase()) },
      { name: "step", numeric: true, cell: (task) => formatNumber(toNumber(task.step)) },
      { name: "incarnation", numeric: true, cell: (task) => formatNumber(toNumber(task.incarnation)) },
      { name: "sent", numeric: true, cell: (task) => formatBytes(toNumber(task.bytesPushed) + toNumber(task.bytesSent)) },
      { name: "received", numeric: true, cell: (task) => formatBytes(toNumber(task.bytesPulled) + toNumber(task.bytesReceived)) },
      { name: "CPU time", numeric: true, cell: (task) => formatDuration(toNumber(task.processCpuSeconds)) },
    ], tasks, (task) => task.slot ?? 0),
    split.map((group) => h("p", { class: "problem", key: group }, `Slow: ${group}.`)),
    h("h2", { key: "map" }, "Shard map"),
    partitions.length === 0 ? h("p", { key: "no-map" }, "The job has no partitions on servers.") : [
      h("p", { key: "version" }, `Version ${job.shardMapVersion ?? 0}, generation ${job.generation ?? 0}.`),
      table("Shard map", [
        { name: "partition", numeric: true, cell: (each) => String(each.partition ?? 0) },
        { name: "server", cell: (each) => (each.replicas ?? []).map((replica) => replica.serverId).join(", ") },
        { name: "address", cell: (each) => (each.replicas ?? []).map((replica) => replica.address).join(", ") },
        { name: "term", numeric: true, cell: (each) => (each.replicas ?? []).map((replica) => replica.term ?? 0).join(", ") },
      ], partitions, (each) => each.partition ?? 0),
    ],
  ];
}

const MOST_CALLS = 20;

// `asked`: {slots, problem}, or undefined before the tasks were asked.
export function collectivesTab(asked, onRead) {
  const read = h("button", { type: "button", key: "read", onclick: onRead }, asked ? "Ask again" : "Ask the tasks");
  if (!asked) return [h("p", { key: "why" }, "The tasks are asked for their last collective calls, which may take 2 seconds."), read];
  if (asked.problem) return [read, h("p", { class: "problem error", key: "problem" }, asked.problem)];
  const having = asked.slots.filter((slot) => slot.calls?.length);
  return [
    read,
    having.length === 0 && h("p", { key: "none" }, "No slot has made a collective call."),
    having.map((slot) => [
      h("h2", { key: `slot ${slot.slot ?? 0}` }, `Slot ${slot.slot ?? 0}`),
      h("p", { class: "soft", key: `time ${slot.slot ?? 0}` }, `The last ${Math.min(MOST_CALLS, slot.calls.length)} calls, newest first; reported ${formatTime(slot.unixMs)}.`),
      table(`Collective calls of slot ${slot.slot ?? 0}`, [
        { name: "call", numeric: true, cell: (call) => String(call.sequence ?? 0) },
        { name: "operation", cell: (call) => [call.operation, call.reduction, call.dtype].filter(Boolean).join(" ") },
        { name: "label", cell: (call) => call.label ?? "" },
        { name: "group", cell: (call) => call.group ?? "" },
        { name: "elements", numeric: true, cell: (call) => formatNumber(toNumber(call.count)) },
        { name: "time", numeric: true, cell: (call) => (Number(call.durationUs ?? 0) < 0 ? h("strong", { class: "slow" }, "not ended")
          : formatDuration(Number(call.durationUs ?? 0) / 1e6)) },
        { name: "error", cell: (call) => call.error ?? "" },
      ], slot.calls.slice(-MOST_CALLS).reverse(), (call) => `${call.group} ${call.sequence}`),
    ]),
  ];
}

// Describes a command that can be copied.
function command(text) {
  const copy = (event) => {
    const button = event.currentTarget;
    navigator.clipboard?.writeText(text).then(() => { button.textContent = "Copied"; });
  };
  return h("span", { class: "command" }, h("code", null, text),
    globalThis.isSecureContext && h("button", { type: "button", "aria-label": `Copy ${text}`, onclick: copy }, "Copy"));
}

export function checkpointsTab(job, checkpoints) {
  if (!checkpoints) return [h("p", null, "Reading …")];
  if (checkpoints.length === 0) return [h("p", null, "The job has no checkpoint yet.")];
  const id = job.jobId;
  return [
    table("Checkpoints", [
      { name: "clock", numeric: true, cell: (each) => [each.best && h("span", { class: "label" }, "best"), formatNumber(toNumber(each.clock))] },
      { name: "kind", class: "wide", cell: (each) => (each.baseClock === undefined ? "full" : `delta on ${each.baseClock}`) },
      { name: "made", cell: (each) => formatTime(each.createdUnixMs) },
      { name: "size", numeric: true, class: "wide", cell: (each) => formatBytes(each.bytes) },
      { name: "go on from it", cell: (each) => (each.damage ? h("strong", { class: "error" }, `damaged: ${each.damage}`)
        : command(restoreCommand(job, each))) },
    ], [...checkpoints].reverse(), (each) => each.clock ?? 0, (each) => (each.damage ? "error" : null)),
    h("p", { class: "soft", key: "more" }, "To start other jobs from a checkpoint's weights alone: ",
      h("code", null, `muster submit FILE --from ${id}@CLOCK`), "."),
  ];
}

// Returns the command that goes on from the checkpoint: to where the job would stop, or from there for as many steps again. `--steps`
// counts from the start of the first job. Only a program knows how many steps it makes.
export function restoreCommand(job, checkpoint) {
  const all = toNumber(job.progress?.totalSteps), clock = toNumber(checkpoint.clock);
  return all > 0 && clock >= all
    ? `muster checkpoint restore ${job.jobId}@${clock} --steps ${clock + all}`
    : `muster checkpoint restore ${job.jobId}@${clock}`;
}

export function configurationTab(job) {
  const given = job.given ?? [];
  const isGiven = (path) => given.some((each) => path === each || path.startsWith(`${each}.`));
  const fields = flatten(job.spec ?? {}).map(([path, value]) => ({ path: fieldName(path), value }));
  const rows = [...fields.filter(({ path }) => isGiven(path)), ...fields.filter(({ path }) => !isGiven(path))];
  return [
    given.length === 0 && h("p", { class: "soft", key: "old" }, "Which fields the job's file gave is not recorded."),
    table("Configuration", [
      { name: "field", cell: ({ path }) => h("code", null, path) },
      { name: "value", class: "text rest", cell: ({ value }) => String(value) },
      ...(given.length === 0 ? [] : [{ name: "from", cell: ({ path }) => (isGiven(path) ? "given" : h("span", { class: "soft" }, "filled in")) }]),
    ], rows, ({ path }) => path),
  ];
}
