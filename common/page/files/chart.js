// Charts of curves over steps, examples or time, drawn by uPlot. The legend is a list of buttons; the keyboard moves the
// cursor, whose values are read out.
import { formatDuration, formatFigure, formatNumber, formatTick } from "./format.js";
import { alignLines } from "./series.js";
import { MARK_NAMES } from "./events.js";
import { h } from "./dom.js";

export const COLOURS = 8;

const AXIS_NAMES = { steps: "step", trials: "trial", examples: "examples", time: "time since the start" };
const HEIGHT = 240;
// Pixels from the cursor in which a mark is read out.
const NEAR = 8;

// Lines with the same colour differ in that some are dashed.
function isDashed(colour) {
  return Math.floor(colour / COLOURS) % 2 === 1;
}

function swatchBackground(colour) {
  const plain = `var(--line-${colour % COLOURS})`;
  return isDashed(colour) ? `repeating-linear-gradient(90deg, ${plain} 0 0.3em, transparent 0.3em 0.5em)` : plain;
}

// Describes the colour of a line with this index, as legends show it.
export function swatch(colour) {
  return h("span", { class: "swatch", style: { background: swatchBackground(colour) } });
}

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colourOf(line) {
  return style(`--line-${line.colour % COLOURS}`);
}

function formatX(value, axis) {
  if (axis === "time") return formatDuration(value);
  return axis === "steps" || axis === "trials" ? formatNumber(Math.round(value)) : formatTick(value);
}

// Returns the pixels that an axis' longest text needs beside it.
export function axisWidth(texts) {
  return Math.max(58, 17 + 7 * Math.max(0, ...(texts ?? []).map((text) => text.length)));
}

// Draws marks: checkpoints as short ticks at the bottom, all others as lines with a letter at the top.
function markPlugin(marks) {
  return {
    hooks: {
      draw: (plot) => {
        const { ctx, bbox } = plot;
        const ratio = devicePixelRatio;
        ctx.save();
        ctx.font = `600 ${11 * ratio}px system-ui, sans-serif`;
        ctx.textAlign = "center";
        for (const mark of marks()) {
          if (!(mark.x >= plot.scales.x.min && mark.x <= plot.scales.x.max)) continue;
          const x = Math.round(plot.valToPos(mark.x, "x", true)) + 0.5;
          const short = mark.kind === "checkpoint";
          ctx.strokeStyle = ctx.fillStyle = style(`--mark-${mark.kind}`);
          ctx.lineWidth = (short ? 2 : 1.5) * ratio;
          ctx.setLineDash(short ? [] : [4 * ratio, 3 * ratio]);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top + bbox.height);
          ctx.lineTo(x, short ? bbox.top + bbox.height - 7 * ratio : bbox.top);
          ctx.stroke();
          if (!short) ctx.fillText(mark.kind[0].toUpperCase(), x, bbox.top - 3 * ratio);
        }
        ctx.restore();
      },
    },
  };
}

// One chart in `host`. Its data: {title, axis, log, marks, lines, sync, span} and, where values are seconds, `seconds`;
// `span` is the x from the chart's beginning to its end; a mark is {x, kind, text}; a line is {name, colour, x, y} and,
// where wanted, {low, high} for a band, `end` for the value at the end in place of the last y, `faint`, `dots`; `apart`
// for points without a line, `strong` for a line that stands out.
class Chart {
  constructor(host) {
    this.host = host;
    this.hidden = new Set();
    this.title = document.createElement("h3");
    this.legend = document.createElement("ul");
    this.legend.className = "legend";
    this.area = document.createElement("div");
    this.area.className = "plot";
    this.area.tabIndex = 0;
    this.area.setAttribute("role", "group");
    this.area.setAttribute("aria-roledescription", "chart");
    this.area.onkeydown = (event) => this.onKey(event);
    this.readout = document.createElement("p");
    this.readout.className = "readout";
    this.readout.setAttribute("aria-live", "polite");
    host.classList.add("chart");
    host.append(this.title, this.legend, this.area, this.readout);
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.area);
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.onTheme = () => this.rebuild();
    this.theme.addEventListener("change", this.onTheme);
  }

  destroy() {
    this.sizes.disconnect();
    this.theme.removeEventListener("change", this.onTheme);
    this.plot?.destroy();
  }

  update(data) {
    if (data === this.data) return;
    this.data = data;
    this.title.textContent = data.title;
    const shape = JSON.stringify([data.axis, data.log, data.lines.map((line) => [
      line.name, line.colour, line.low !== undefined, line.faint, line.dots, line.apart, line.strong])]);
    this.table = alignLines([{ x: data.span, ys: [] }, ...data.lines.map((line) => ({
      x: line.x,
      ys: (line.low ? [line.y, line.high, line.low] : [line.y]).map((values) => (
        data.log ? values.map((value) => (value > 0 ? value : null)) : values)),
    }))]);
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.rebuild();
    } else {
      const zoomed = this.isZoomed();
      this.plot.setData(this.plotData(), !zoomed);
      if (zoomed) this.plot.redraw();
    }
    this.extent = [this.table.xs[0], this.table.xs[this.table.xs.length - 1]];
    this.describe();
    this.showValues();
  }

  plotData() {
    return [this.table.xs, ...this.table.columns.flat()];
  }

  isZoomed() {
    const { min, max } = this.plot.scales.x;
    return this.extent?.[0] !== undefined && (min > this.extent[0] || max < this.extent[1]);
  }

  fit() {
    const width = this.area.clientWidth;
    if (this.plot && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  rebuild() {
    if (!this.data) return;
    this.plot?.destroy();
    const { axis, log, lines } = this.data;
    const series = [{}], bands = [];
    for (const line of lines) {
      const show = !this.hidden.has(line.name);
      const colour = colourOf(line);
      series.push({
        label: line.name,
        show,
        stroke: line.faint ? `${colour}66` : colour,
        width: line.faint ? 1 : line.strong ? 4 : 2,
        paths: line.apart ? () => null : undefined,
        dash: isDashed(line.colour) ? [8, 5] : undefined,
        spanGaps: true,
        points: { show: line.dots || line.apart || line.x.length < 3, size: 6, fill: colour },
      });
      if (line.low) {
        const edge = { show, stroke: "transparent", width: 0, spanGaps: true, points: { show: false } };
        bands.push({ series: [series.length, series.length + 1], fill: `${colour}2e` });
        series.push(edge, { ...edge });
      }
    }
    const text = style("--text-soft"), grid = style("--grid");
    const axisStyle = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const options = {
      width: Math.max(200, this.area.clientWidth),
      height: HEIGHT,
      series,
      bands,
      // Room for the marks' letters, and for half of the last tick's text.
      padding: [18, 26, 0, 0],
      legend: { show: false },
      cursor: { sync: this.data.sync ? { key: this.data.sync } : undefined, points: { size: 7 } },
      scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
      axes: [
        { ...axisStyle, label: AXIS_NAMES[axis], labelSize: 20, size: 34,
          values: (_, ticks) => ticks.map((tick) => formatX(tick, axis)), space: 70 },
        { ...axisStyle, size: (_, texts) => axisWidth(texts), values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : this.data.seconds ? formatDuration(tick) : formatTick(tick))) },
      ],
      hooks: { setCursor: [() => this.showValues()] },
      plugins: [markPlugin(() => this.data.marks ?? [])],
    };
    this.plot = new globalThis.uPlot(options, this.plotData(), this.area);
    this.drawLegend();
  }

  format(value) {
    return this.data.seconds ? formatDuration(value) : formatFigure(value);
  }

  // Returns the first of a line's uPlot series.
  seriesOf(index) {
    return 1 + this.data.lines.slice(0, index).reduce((sum, line) => sum + (line.low ? 3 : 1), 0);
  }

  drawLegend() {
    this.legend.replaceChildren();
    this.values = this.data.lines.map((line, index) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      const swatch = document.createElement("span");
      const value = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = swatchBackground(line.colour);
      value.className = "value";
      button.type = "button";
      button.append(swatch, line.name, " ", value);
      button.setAttribute("aria-pressed", String(!this.hidden.has(line.name)));
      button.onclick = () => {
        const show = this.hidden.has(line.name);
        if (show) this.hidden.delete(line.name); else this.hidden.add(line.name);
        button.setAttribute("aria-pressed", String(show));
        const first = this.seriesOf(index);
        for (let each = first; each < first + (line.low ? 3 : 1); ++each) this.plot.setSeries(each, { show });
      };
      item.hidden = Boolean(line.faint);
      item.append(button);
      this.legend.append(item);
      return value;
    });
  }

  // Returns the line's value at the cursor or before it; without a cursor, the one at its end.
  valueOf(line, x) {
    let index = line.x.length - 1;
    if (x === undefined || line.x[index] <= x) return line.end ?? line.y[index];
    while (index > 0 && line.x[index] > x) --index;
    return line.y[index];
  }

  showValues() {
    if (!this.values || !this.plot) return;
    const { idx, left } = this.plot.cursor;
    const x = left >= 0 && idx !== null && idx !== undefined ? this.table.xs[idx] : undefined;
    this.data.lines.forEach((line, index) => {
      this.values[index].textContent = line.x.length ? this.format(this.valueOf(line, x)) : "";
    });
    const parts = [];
    if (x !== undefined) {
      parts.push(`${AXIS_NAMES[this.data.axis]} ${formatX(x, this.data.axis)}`);
      for (const mark of this.data.marks ?? []) {
        if (Math.abs(this.plot.valToPos(mark.x, "x") - left) < NEAR) parts.push(mark.text);
      }
    }
    const text = parts.slice(0, 4).join(" · ");
    if (this.readout.textContent !== text) this.readout.textContent = text;
  }

  describe() {
    const parts = this.data.lines.filter((line) => !line.faint && line.x.length).map((line) => {
      const finite = line.y.filter(Number.isFinite);
      return `${line.name}: ${this.format(this.valueOf(line))} at the end, between ${this.format(least(finite))} and ` +
        `${this.format(-least(finite.map((value) => -value)))}`;
    });
    this.area.setAttribute("aria-label", `${this.data.title}. ${parts.join("; ")}. Arrow keys read values.`);
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    const last = this.table.xs.length - 1;
    if (event.key === "Escape") {
      this.plot.setCursor({ left: -10, top: -10 });
    } else if (event.key in steps && last >= 0) {
      const from = this.plot.cursor.idx ?? (event.key === "ArrowRight" ? -1 : last + 1);
      const index = Math.min(last, Math.max(0, from + steps[event.key]));
      this.plot.setCursor({ left: this.plot.valToPos(this.table.xs[index], "x"), top: 20 });
      event.preventDefault();
    }
  }
}

function least(values) {
  return values.reduce((smallest, value) => Math.min(smallest, value), Infinity);
}

// For dom.js: h("div", {mount: mountChart, data}).
export function mountChart(host) {
  return new Chart(host);
}

// Describes the kinds of marks that charts have, for the list below them.
export function markKinds(marks) {
  const kinds = [...new Set(marks.map((mark) => mark.kind))];
  return kinds.map((kind) => ({ kind, letter: kind === "checkpoint" ? "▏" : kind[0].toUpperCase(), name: MARK_NAMES[kind] }));
}
