// The dialog in which a person confirms what is to be done to a job.
import { hasToken, setToken } from "./api.js";
import { h, render } from "./dom.js";

// Asks with a title, a text and what `fields` describes, and for the token where none is known; then calls
// `act(elements, token)` with the form's elements. `act` may fail: the dialog says why, and stays. `onDone` is called
// after it succeeded. `key` tells apart what is asked for; `yes` and `no` are the buttons' texts.
export function ask({ key, title, text, fields, act, yes, no, danger = false }, onDone) {
  const dialog = document.getElementById("dialog");
  let problem = "", needsToken = !hasToken();
  const submit = async (event) => {
    event.preventDefault();
    const { elements } = event.target;
    const token = elements.token?.value;
    try {
      await act(elements, token);
      if (token) setToken(token);
      dialog.close();
      onDone();
    } catch (error) {
      problem = error.message;
      needsToken ||= error.status === 401;
      draw();
    }
  };
  const draw = () => render(dialog,
    h("form", { onsubmit: submit, key },
      h("h2", { id: "dialog-title" }, title),
      h("p", null, text),
      fields,
      needsToken && h("label", null, "Token ", h("input", { type: "password", name: "token", autocomplete: "off", required: true })),
      problem && h("p", { class: "problem error", role: "alert" }, problem),
      h("div", { class: "toolbar" },
        h("button", { type: "submit", class: danger ? "danger" : "primary" }, yes),
        h("button", { type: "button", onclick: () => dialog.close() }, no))));
  draw();
  dialog.showModal();
}
