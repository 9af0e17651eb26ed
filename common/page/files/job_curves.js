// A job's curves: what is shown together, and the marks of its events.
import { markKinds, mountChart } from "./chart.js";
import { chartControls, linesOf, placeMarks } from "./controls.js";
import { h } from "./dom.js";
import { formatNumber, formatTime } from "./format.js";
import { seriesName, seriesTitle } from "./comparison.js";
import { withOneSpan } from "./series.js";

// Charts of several series; any other series has a chart of its own.
const TOGETHER = [
  { title: "Loss", series: ["train/loss", "held_out/loss"] },
  { title: "Staleness, clocks", series: ["staleness/mean", "staleness/max"] },
];

// Returns the charts {title, series} for these series, loss and metrics first.
export function chartsOf(names) {
  const single = names.filter((name) => !TOGETHER.some(({ series }) => series.includes(name)));
  const own = (prefix) => single.filter((name) => name.startsWith(prefix)).sort()
    .map((name) => ({ title: seriesTitle(name), series: [name] }));
  const together = TOGETHER.map((chart) => ({ ...chart, series: chart.series.filter((name) => names.includes(name)) }))
    .filter(({ series }) => series.length > 0);
  const [loss, rest] = [together.filter(({ title }) => title === "Loss"), together.filter(({ title }) => title !== "Loss")];
  return [...loss, ...own("held_out/"), ...own("train/"), ...own("speed/"), ...rest];
}

// Returns all charts' data. `run`: {batchSize, startMs}.
export function curveData(history, marks, settings, run) {
  const placed = placeMarks(marks, settings, run);
  return withOneSpan(chartsOf([...history.series.keys()]).map(({ title, series }) => ({
    key: title,
    title,
    axis: settings.axis,
    log: settings.log,
    marks: placed,
    sync: "job",
    lines: series.flatMap((name, index) => linesOf(seriesName(name), index,
      history.series.get(name), settings, run, { dots: name.startsWith("held_out/") })),
  })));
}

// Describes the controls (`more` are further ones), the charts and the list of marks.
export function curves({ charts, marks, settings, onSettings }, more) {
  return [
    (charts.length > 0 || more) && h("div", { class: "toolbar", key: "toolbar" }, chartControls(settings, onSettings), more),
    charts.length === 0 && h("p", { key: "none" }, "There are no curves yet."),
    h("div", { class: "charts", key: "charts" }, charts.map((chart) => h("div", { key: chart.key, mount: mountChart, data: chart }))),
    marks.length > 0 && [
      h("ul", { class: "legend", key: "kinds" }, markKinds(marks).map(({ kind, letter, name }) => h("li", { key: kind },
        h("span", { class: `mark ${kind}` }, letter), name))),
      h("details", { key: "marks" },
        h("summary", null, `Marks: ${marks.length}`),
        h("ol", { class: "events" }, marks.slice(-200).reverse().map((mark, index) => h("li", { key: `${mark.unixMs} ${index}` },
          h("time", null, formatTime(mark.unixMs)), ` step ${formatNumber(mark.step)}: ${mark.text}`)))),
    ],
  ];
}

// Describes the tab.
export function curvesTab(shown) {
  return [h("h2", { class: "hidden", key: "title" }, "Curves"), curves(shown)];
}
