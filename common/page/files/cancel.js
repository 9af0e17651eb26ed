// The dialog that cancels a job.
import { api, hasToken, setToken } from "./api.js";
import { h, render } from "./dom.js";

// Asks for a reason, and for the token where none is known; then cancels the job. `onDone` is called after that.
export function askToCancel(job, name, onDone) {
  const dialog = document.getElementById("dialog");
  let problem = "", needsToken = !hasToken();
  const submit = async (event) => {
    event.preventDefault();
    const { reason, token } = event.target.elements;
    try {
      await api.cancel(job, reason.value, token?.value);
      if (token) setToken(token.value);
      dialog.close();
      onDone();
    } catch (error) {
      problem = error.message;
      needsToken ||= error.status === 401;
      draw();
    }
  };
  const draw = () => render(dialog,
    h("form", { onsubmit: submit, key: job },
      h("h2", { id: "dialog-title" }, `Cancel ${name}?`),
      h("p", null, "The job ends; its last checkpoint stays."),
      h("label", null, "Reason ", h("input", { name: "reason", autocomplete: "off" })),
      needsToken && h("label", null, "Token ", h("input", { type: "password", name: "token", autocomplete: "off", required: true })),
      problem && h("p", { class: "problem error", role: "alert" }, problem),
      h("div", { class: "toolbar" },
        h("button", { type: "submit", class: "danger" }, "Cancel the job"),
        h("button", { type: "button", onclick: () => dialog.close() }, "Keep it"))));
  draw();
  dialog.showModal();
}
