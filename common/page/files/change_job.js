// The page's changes of a job: it cancels and describes it.
import { api } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";

const MOST_DESCRIPTION = 4096;

// Asks for a reason; then cancels the job. `onDone` is called after that.
export function askToCancel(job, name, onDone) {
  ask({
    key: `cancel ${job}`,
    title: `Cancel ${name}?`,
    text: "The job ends; its last checkpoint stays.",
    fields: h("label", null, "Reason ", h("input", { name: "reason", autocomplete: "off" })),
    act: ({ reason }, token) => api.cancel(job, reason.value, token),
    yes: "Cancel the job",
    no: "Keep it",
    danger: true,
  }, onDone);
}

// Asks for another description of the job, which has the present one. `onDone` is called after that.
export function askToDescribe(job, name, present, onDone) {
  ask({
    key: `describe ${job} ${present}`,
    title: `Describe ${name}`,
    text: "What the job is for, or what came of it.",
    fields: h("label", null, "Description ", h("textarea", { name: "description", rows: "8", maxlength: String(MOST_DESCRIPTION), value: present })),
    act: ({ description }, token) => api.describe(job, description.value.trim(), token),
    yes: "Save",
    no: "Keep it as it is",
  }, onDone);
}
