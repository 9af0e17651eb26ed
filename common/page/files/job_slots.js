// Shows where each slot's step and memory goes.
import { bar, barLegend, partsOf, STEP_PARTS } from "./bars.js";
import { h } from "./dom.js";
import { count, formatBytes, formatDuration, toNumber } from "./format.js";
import { curves } from "./job_curves.js";
import { groupName } from "./slot_curves.js";

// Slots that are shown at once; slow ones come first.
const MOST = 32;

// Returns a slot's seconds per step by part: of its last steps, or, where they are unknown, of all steps it reported.
export function stepParts(task) {
  const from = task.lastSteps ?? task;
  const steps = toNumber(from.steps);
  if (steps === 0) return undefined;
  return {
    compute: toNumber(from.computeSeconds) / steps,
    communication: toNumber(from.exposedCommunicationSeconds) / steps,
    data: toNumber(from.waitingSeconds) / steps,
  };
}

// Returns the memory {used, planned} in bytes of a task's process, without memory that other processes created.
export function memoryOf(task, job) {
  return {
    used: toNumber(task.processPeakBytes) - toNumber(task.processMappedBytes),
    planned: toNumber(job.predictedWorkerBytes) / (toNumber(job.spec?.workers) || 1),
  };
}

// Describes the tab. `all`: shows every slot's bars; `onAll` asks for it. `over`: the curves {charts, marks, settings,
// onSettings} of the group with index `group` of `groups`; `onGroup` gets the index of another.
export function slotsTab(job, { all, onAll, over, groups, group, onGroup }) {
  return [
    slotBars(job, all, onAll),
    h("h2", { key: "over" }, "Over the whole run"),
    h("p", { class: "soft", key: "mean" }, "Time of a step, as the mean of the steps that a slot reported together."),
    curves(over, groups.length > 1 && h("label", null, "Slots ",
      h("select", { value: String(group), onchange: (event) => onGroup(Number(event.target.value)) },
        groups.map((slots, index) => h("option", { value: String(index), key: index }, groupName(slots, job)))))),
  ];
}

function slotBars(job, all, onAll) {
  const tasks = [...(job.tasks ?? [])].sort((a, b) => Number(Boolean(b.slow)) - Number(Boolean(a.slow)) || toNumber(a.slot) - toNumber(b.slot));
  if (tasks.length === 0) return [h("p", null, "The job has no tasks now.")];
  const shown = all ? tasks : tasks.slice(0, MOST);
  const parts = new Map(tasks.map((task) => [task, stepParts(task)]));
  const total = (part) => (part ? part.compute + part.communication + part.data : 0);
  const longest = Math.max(...tasks.map((task) => total(parts.get(task))));
  const memory = new Map(tasks.map((task) => [task, memoryOf(task, job)]));
  const largest = Math.max(...[...memory.values()].flatMap(({ used, planned }) => [used, planned]));
  return [
    h("h2", { key: "time" }, "Where each slot's step goes"),
    !tasks.some((task) => task.slow) && h("p", { key: "none", class: "fine" }, "No slot is slow beside the others."),
    h("div", { class: "bars", key: "step-bars" }, barLegend(STEP_PARTS), shown.map((task) => {
      const part = parts.get(task);
      return h("div", { class: "bar-row", key: task.slot ?? 0 },
        h("span", { class: "bar-name" }, `slot ${task.slot ?? 0}`, task.slow && h("strong", { class: "slow" }, " slow")),
        part ? bar(partsOf(part), longest)
          : h("span", { class: "soft" }, "no steps reported"),
        h("span", { class: "number" }, part ? formatDuration(total(part)) : ""));
    })),
    h("h2", { key: "memory" }, "Peak memory beside the plan"),
    h("div", { class: "bars", key: "memory-bars" }, barLegend([["memory", "peak of the task's process"], ["plan", "planned"]]), shown.map((task) => {
      const { used, planned } = memory.get(task);
      return h("div", { class: "bar-row", key: task.slot ?? 0 },
        h("span", { class: "bar-name" }, `slot ${task.slot ?? 0}`),
        h("div", { class: "pair" },
          bar([{ kind: "memory", name: "peak", value: used, text: formatBytes(used) }], largest),
          bar([{ kind: "plan", name: "planned", value: planned, text: formatBytes(planned) }], largest)),
        h("span", { class: "number" }, `${formatBytes(used)} / ${formatBytes(planned)}`));
    })),
    toNumber(job.predictedServerBytes) > 0 && h("p", { key: "servers" }, `Planned on all servers together: ${formatBytes(job.predictedServerBytes)}.`),
    toNumber(job.predictedDeviceBytes) > 0 && h("p", { key: "devices" }, `Planned on each task's device: ${formatBytes(job.predictedDeviceBytes)}.`),
    tasks.length > shown.length && h("button", { type: "button", key: "all", onclick: onAll }, `Show all ${count(tasks.length, "slot")}`),
  ];
}
