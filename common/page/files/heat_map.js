// A heat map of loads by block and expert, on a canvas with a pixel for each cell, which the browser stretches. The pointer
// and the keyboard move a cursor, whose cell is read out.
import { formatNumber } from "./format.js";

// The colour of an expert goes by its load over the mean of its block, from 1 / MOST to MOST.
export const MOST = 8;
const TALLEST = 28, LOWEST = 8, HEIGHT = 560, WIDEST = 64;
const LABEL_HEIGHT = 16, MOST_LABELS = 8;

// Returns where a load is on the scale: -1 for 1 / MOST of the mean or less, 0 for the mean, 1 for MOST times the mean or more.
export function placeOnScale(ratio) {
  if (!(ratio > 0)) return -1;
  return Math.max(-1, Math.min(1, Math.log2(ratio) / Math.log2(MOST)));
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function channels(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function element(tag, className, parent) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  parent.append(node);
  return node;
}

// One heat map in `host`. Its data: {title, summary, experts, rows}, a row being {block, tokens, mean, sum}.
class HeatMap {
  constructor(host) {
    host.classList.add("heat-map");
    this.names = element("div", "names", host);
    this.area = element("div", "cells", host);
    this.numbers = element("div", "numbers", host);
    this.names.setAttribute("aria-hidden", "true");
    this.numbers.setAttribute("aria-hidden", "true");
    this.canvas = element("canvas", "", this.area);
    this.cursor = element("div", "cursor", this.area);
    this.tip = element("div", "tip", this.area);
    this.tip.setAttribute("aria-hidden", "true");
    this.readout = element("p", "readout", host);
    this.readout.setAttribute("aria-live", "polite");
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-roledescription", "heat map");
    this.area.onkeydown = (event) => this.onKey(event);
    this.area.onpointermove = (event) => this.onPointer(event);
    this.area.onpointerleave = () => this.select(undefined);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.onTheme = () => this.paint();
    this.theme.addEventListener("change", this.onTheme);
  }

  destroy() {
    this.theme.removeEventListener("change", this.onTheme);
  }

  update(data) {
    if (data === this.data) return;
    const { experts, rows } = this.data = data;
    this.area.setAttribute("aria-label", `${data.title}. ${data.summary} Arrow keys read loads.`);
    this.rowHeight = Math.max(LOWEST, Math.min(TALLEST, Math.floor(HEIGHT / rows.length)));
    this.area.style.height = this.names.style.height = `${this.rowHeight * rows.length}px`;
    this.area.style.maxWidth = this.numbers.style.maxWidth = `${experts * WIDEST}px`;
    const eachRow = Math.ceil(LABEL_HEIGHT / this.rowHeight);
    this.label(this.names, rows.map(({ block }) => block), eachRow, "top");
    this.label(this.numbers, Array.from({ length: experts }, (_, expert) => expert), Math.ceil(experts / MOST_LABELS), "left");
    this.paint();
    const cell = this.cell;
    this.select(cell && cell.row < rows.length && cell.expert < experts ? cell : undefined);
  }

  // Writes each so many of the texts where its row or column is.
  label(parent, texts, each, side) {
    parent.replaceChildren(...texts.map((text, index) => {
      const label = document.createElement("span");
      label.textContent = text;
      label.style[side] = `${(100 * (index + 0.5)) / texts.length}%`;
      return label;
    }).filter((_, index) => index % each === 0));
  }

  paint() {
    if (!this.data) return;
    const { experts, rows } = this.data;
    const [low, even, high] = ["--load-low", "--load-even", "--load-high"].map((name) => channels(style(name)));
    this.canvas.width = experts;
    this.canvas.height = rows.length;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(experts, rows.length);
    rows.forEach(({ tokens, mean }, row) => tokens.forEach((each, expert) => {
      const place = placeOnScale(each / mean), end = place < 0 ? low : high;
      const at = 4 * (row * experts + expert);
      for (let i = 0; i < 3; ++i) image.data[at + i] = even[i] + Math.abs(place) * (end[i] - even[i]);
      image.data[at + 3] = 255;
    }));
    context.putImageData(image, 0, 0);
  }

  onPointer(event) {
    const box = this.canvas.getBoundingClientRect(), { experts, rows } = this.data;
    const at = (position, size, count) => Math.max(0, Math.min(count - 1, Math.floor((position / size) * count)));
    this.select({ row: at(event.clientY - box.top, box.height, rows.length), expert: at(event.clientX - box.left, box.width, experts) });
  }

  onKey(event) {
    const { experts, rows } = this.data;
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
    if (event.key === "Escape") {
      this.select(undefined);
    } else if (event.key in moves) {
      const [down, right] = this.cell ? moves[event.key] : [0, 0];
      const from = this.cell ?? { row: 0, expert: event.key === "End" ? experts - 1 : 0 };
      const within = (value, count) => Math.max(0, Math.min(count - 1, value));
      this.select({ row: within(from.row + down, rows.length), expert: within(from.expert + right, experts) });
      event.preventDefault();
    }
  }

  // Shows a cell {row, expert}, or none.
  select(cell) {
    this.cell = cell;
    this.cursor.hidden = this.tip.hidden = cell === undefined;
    const text = cell ? loadText(this.data.rows[cell.row], cell.expert) : "";
    if (this.readout.textContent !== text) this.readout.textContent = this.tip.textContent = text;
    if (!cell) return;
    const { experts, rows } = this.data;
    const box = this.cursor.style, tip = this.tip.style;
    box.left = `${(100 * cell.expert) / experts}%`;
    box.width = `${100 / experts}%`;
    box.top = `${(100 * cell.row) / rows.length}%`;
    box.height = `${100 / rows.length}%`;
    // On the side that has more room.
    const right = cell.expert * 2 >= experts, above = cell.row * 2 >= rows.length;
    tip.left = right ? "auto" : `${(100 * (cell.expert + 1)) / experts}%`;
    tip.right = right ? `${(100 * (experts - cell.expert)) / experts}%` : "auto";
    tip.top = above ? "auto" : `${(100 * (cell.row + 1)) / rows.length}%`;
    tip.bottom = above ? `${(100 * (rows.length - cell.row)) / rows.length}%` : "auto";
  }
}

// Returns a cell in words.
export function loadText({ block, tokens, mean, sum }, expert) {
  const share = sum > 0 ? `${((100 * tokens[expert]) / sum).toFixed(2)} % of the block's, ${(tokens[expert] / mean).toFixed(2)} × the mean` : "none in the block";
  return `block ${block}, expert ${expert}: ${formatNumber(tokens[expert])} tokens, ${share}`;
}

// For dom.js: h("div", {mount: mountHeatMap, data}).
export function mountHeatMap(host) {
  return new HeatMap(host);
}
