// Specifications as flat lists of fields, and what differs between several. Pure functions.

// Returns a JSON object's leaves as [path, value] in its own order, such as ["optimizer.learningRate", 0.1]. Lists of
// plain values are one leaf.
export function flatten(value, path = "") {
  if (value === null || typeof value !== "object") return [[path, value]];
  if (Array.isArray(value) && value.every((each) => each === null || typeof each !== "object")) {
    return [[path, value.join(", ")]];
  }
  return Object.entries(value).flatMap(([name, each]) => flatten(each, path ? `${path}.${name}` : name));
}

// Returns the field's name as job files write it, such as "optimizer.learning_rate". A label's name stays as it is.
export function fieldName(path) {
  if (path.startsWith("labels.")) return path;
  return path.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

// Returns rows {path, values} for the fields in which the specifications differ; a field that one lacks is undefined
// there.
export function differences(specifications) {
  const flat = specifications.map((specification) => new Map(flatten(specification ?? {})));
  const paths = new Set(flat.flatMap((fields) => [...fields.keys()]));
  return [...paths]
    .map((path) => ({ path, values: flat.map((fields) => fields.get(path)) }))
    .filter(({ values }) => values.some((value) => value !== values[0]));
}
