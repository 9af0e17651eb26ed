#include "client/compare/report.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/compare/chart.h"

namespace muster {
namespace {

constexpr char kStyle[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1120px;padding:0 1em;"
    "color:#1c2330}"
    "h1{font-size:1.5em;margin:0 0 .2em}p{margin:.3em 0 1em}"
    "table{border-collapse:collapse;margin:1em 0;font-variant-numeric:tabular-nums}"
    "th,td{padding:.3em .8em;border-bottom:1px solid #d7dce3;text-align:right}"
    "th:first-child,td:first-child{text-align:left}.mismatch{color:#b3261e;font-weight:600}"
    "figure{margin:1em 0;display:flex;flex-wrap:wrap;gap:1em}"
    "svg{font:12px system-ui,sans-serif;background:#fafbfc;border:1px solid #d7dce3}"
    "svg .title{font-weight:600}.grid{stroke:#d7dce3}.line{fill:none;stroke-width:2}";

std::string Table(const Comparison& comparison) {
  std::string html = "<table>\n";
  bool head = true;
  for (const std::vector<std::string>& row : ComparisonTable(comparison, TableStyle::kReport)) {
    const std::string tag = head ? "th" : "td";
    absl::StrAppend(&html, "<tr>");
    for (const std::string& cell : row) {
      const bool mismatch = absl::EndsWith(cell, kNotAsPredicted);
      absl::StrAppend(&html, "<", tag, mismatch ? " class=\"mismatch\"" : "", ">", EscapeHtml(cell),
                      "</", tag, ">");
    }
    absl::StrAppend(&html, "</tr>\n");
    head = false;
  }
  return html + "</table>\n";
}

// The curve of each road's first repeat: the seeds are the same, so the others differ by timing.
std::vector<LineSeries> Curves(const Comparison& comparison, bool over_seconds, bool loss) {
  std::vector<LineSeries> series;
  for (size_t i = 0; i < comparison.roads.size(); ++i) {
    LineSeries line{.name = comparison.roads[i].road, .colour = static_cast<int>(i)};
    for (const CurvePoint& point : comparison.roads[i].runs[0].curve) {
      if (!loss && !point.metric.has_value()) continue;
      line.points.emplace_back(over_seconds ? point.seconds : static_cast<double>(point.examples),
                               loss ? point.loss : *point.metric);
    }
    series.push_back(std::move(line));
  }
  return series;
}

std::vector<BarRow> StepParts(const Comparison& comparison) {
  std::vector<BarRow> rows;
  for (const RoadResult& road : comparison.roads) {
    rows.push_back({.name = road.road,
                    .parts = {road.Of(&MeasuredRun::compute_seconds).median * 1e3,
                              road.Of(&MeasuredRun::communication_seconds).median * 1e3,
                              road.Of(&MeasuredRun::waiting_seconds).median * 1e3}});
  }
  return rows;
}

std::vector<BarRow> CpuParts(const Comparison& comparison) {
  std::vector<BarRow> rows;
  for (const RoadResult& road : comparison.roads) {
    rows.push_back({.name = road.road,
                    .parts = {road.Of(&MeasuredRun::worker_cpu_seconds).median,
                              road.Of(&MeasuredRun::server_cpu_seconds).median}});
  }
  return rows;
}

}  // namespace

std::string ComparisonReport(const Comparison& comparison) {
  const bool roads = comparison.of == Comparison::Of::kRoads;
  const std::string title =
      absl::StrCat(roads ? "Roads compared: " : "ZeRO stages compared: ", comparison.job);
  const std::string servers =
      roads ? absl::StrCat(comparison.servers, " servers on the parameter-server roads, ") : "";
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", EscapeHtml(title),
      "</title><style>", kStyle, "</style></head><body>\n<h1>", EscapeHtml(title), "</h1>\n<p>",
      comparison.workers, " workers, ", servers, "batch ", comparison.batch_size, ", ",
      comparison.processors, " processors for all of them together, ",
      comparison.roads.empty() ? 0 : comparison.roads[0].runs.size(),
      " repeats in alternating order; medians, with the range where it shows. Speeds, parts of a "
      "step and bytes leave the warm-up out that the table tells. Communication includes waiting "
      "for "
      "slower workers and, on servers, the optimizer; with all-reduce the optimizer is "
      "compute.</p>\n");
  absl::StrAppend(&html, Table(comparison));
  for (const std::string& reason : comparison.left_out) {
    absl::StrAppend(&html, "<p>Left out: ", EscapeHtml(reason), ".</p>\n");
  }
  for (const std::string& line : TrafficMismatches(comparison)) {
    absl::StrAppend(&html, "<p class=\"mismatch\">Not as predicted: ", EscapeHtml(line), ".</p>\n");
  }
  absl::StrAppend(&html, "<figure>\n");
  if (!comparison.roads.empty() && !comparison.roads[0].runs[0].curve.empty()) {
    absl::StrAppend(
        &html,
        LineChart("Held-out loss over examples", "examples", Curves(comparison, false, true)),
        LineChart("Held-out loss over time", "seconds of training",
                  Curves(comparison, true, true)));
  }
  const std::string metric = comparison.roads.empty() ? "" : comparison.roads[0].runs[0].metric;
  if (!metric.empty() && metric != "loss") {
    absl::StrAppend(&html,
                    LineChart(absl::StrCat("Held-out ", metric, " over examples"), "examples",
                              Curves(comparison, false, false)),
                    LineChart(absl::StrCat("Held-out ", metric, " over time"),
                              "seconds of training", Curves(comparison, true, false)));
  }
  absl::StrAppend(
      &html,
      StackedBars("Where a step's time goes",
                  {"compute", "exposed communication", "waiting for data"}, StepParts(comparison),
                  "ms"),
      StackedBars("CPU time of the whole run", {"workers", "servers"}, CpuParts(comparison), "s"),
      "</figure>\n</body></html>\n");
  return html;
}

}  // namespace muster
