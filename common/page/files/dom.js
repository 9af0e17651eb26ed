// Elements described as plain objects, and the changes that make a page look as described. What is already right stays
// the same element, so that focus, selection and scroll position stay, too. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "circle", "line"]);

// Describes an element. Properties:
//   key: identifies the element among its siblings;
//   onclick and so on: listeners; value, checked, selected, disabled, open, hidden: set as properties;
//   style: an object of CSS properties; every other property: an attribute (true: empty; false, null: absent);
//   mount(element), data: a part of the page that looks after itself. `mount` returns {update(data), destroy()}.
// Children are descriptions, strings and numbers, in lists of any depth; false, null and undefined are left out.
export function h(tag, properties, ...children) {
  return { tag, properties: properties ?? {}, children: flat(children), key: properties?.key };
}

function flat(children) {
  return children.flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (typeof child === "object" ? child : { text: String(child) }));
}

// The described children of a parent with their nodes, as they are shown now.
const shown = new WeakMap();
const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "open", "hidden"]);

function setProperty(node, name, value, before) {
  if (name === "key" || name === "mount" || name === "data") return;
  if (name.startsWith("on")) {
    if (value !== before) node[name] = value ?? null;
  } else if (name === "style") {
    for (const each of Object.keys(before ?? {})) if (!(each in (value ?? {}))) node.style.removeProperty(each);
    for (const [each, text] of Object.entries(value ?? {})) {
      if (before?.[each] !== text) node.style.setProperty(each, text);
    }
  } else if (PROPERTIES.has(name)) {
    // Compared with what was described before, so that what a person changed in the meantime stays.
    if (value !== before) node[name] = value ?? "";
  } else if (value !== before) {
    if (value === false || value === null || value === undefined) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : value);
  }
}

function create(description) {
  if (description.text !== undefined) return document.createTextNode(description.text);
  const node = SVG_TAGS.has(description.tag)
    ? document.createElementNS(SVG, description.tag)
    : document.createElement(description.tag);
  for (const [name, value] of Object.entries(description.properties)) {
    if (name !== "value") setProperty(node, name, value, undefined);
  }
  if (description.properties.mount) {
    node.mounted = description.properties.mount(node);
    node.mounted.update(description.properties.data);
  } else {
    patch(node, description.children);
    // The value of a <select> can be set once its options are there.
    if ("value" in description.properties) node.value = description.properties.value;
  }
  return node;
}

function change(node, description, before) {
  if (description.text !== undefined) {
    if (description.text !== before.text) node.data = description.text;
    return;
  }
  const names = new Set([...Object.keys(before.properties), ...Object.keys(description.properties)]);
  for (const name of names) setProperty(node, name, description.properties[name], before.properties[name]);
  if (node.mounted) node.mounted.update(description.properties.data);
  else patch(node, description.children);
}

function discard(node) {
  node.mounted?.destroy();
  for (const child of shown.get(node) ?? []) discard(child.node);
}

function identity(description) {
  if (description.text !== undefined) return "#text";
  return description.key === undefined ? description.tag : `${description.tag}#${description.key}`;
}

function patch(parent, children) {
  const free = new Map();
  for (const old of shown.get(parent) ?? []) {
    const name = identity(old.description);
    if (!free.has(name)) free.set(name, []);
    free.get(name).push(old);
  }
  const next = children.map((description) => ({ description, old: free.get(identity(description))?.shift() }));
  for (const unused of free.values()) {
    for (const { node } of unused) {
      discard(node);
      node.remove();
    }
  }
  let place = parent.firstChild;
  for (const each of next) {
    if (each.old) {
      each.node = each.old.node;
      change(each.node, each.description, each.old.description);
    } else {
      each.node = create(each.description);
    }
    if (each.node === place) place = place.nextSibling;
    else parent.insertBefore(each.node, place);
  }
  shown.set(parent, next.map(({ node, description }) => ({ node, description })));
}

// Makes the parent's children look as described. An element that was moved keeps the focus.
export function render(parent, ...children) {
  if (!shown.has(parent)) parent.replaceChildren();
  const focused = document.activeElement;
  patch(parent, flat(children));
  if (focused !== document.activeElement && focused?.isConnected && focused !== document.body) {
    focused.focus({ preventScroll: true });
  }
}
