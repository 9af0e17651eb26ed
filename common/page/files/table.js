// Tables that scroll on their own where the page is narrow.
import { h } from "./dom.js";

// Describes a table. A column is {name, cell(row), numeric, class, heading}; `heading` replaces the name in the head.
export function table(caption, columns, rows, keyOf = (_, index) => index, rowClass = () => null) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null,
      h("thead", null, h("tr", null, columns.map((column) => h("th",
        { key: column.name, scope: "col", class: classOf(column), "aria-sort": column.sorted },
        column.heading ?? column.name)))),
      h("tbody", null, rows.map((row, index) => h("tr", { key: keyOf(row, index), class: rowClass(row) },
        columns.map((column) => h("td", { key: column.name, class: classOf(column), "data-column": column.name }, column.cell(row))))))));
}

// Describes a table that never scrolls: where the page is narrow, each row is a list of its columns.
export function stackedTable(caption, columns, rows, keyOf) {
  return h("div", { class: "stacked" }, table(caption, columns, rows, keyOf));
}

function classOf(column) {
  return [column.numeric ? "number" : "", column.class ?? ""].join(" ").trim() || null;
}
