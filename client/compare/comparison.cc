#include "client/compare/comparison.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/compare/traffic_check.h"
#include "client/terminal/format.h"
#include "common/eval/metric.h"
#include "common/text/format_bytes.h"

namespace muster {
namespace {

std::string Whole(double value) {
  return std::isfinite(value) ? FormatCount(std::llround(value)) : FormatNumber(value);
}

using Format = std::function<std::string(double)>;

// Returns the farthest value's distance from the median, in percent of the median.
std::string Distance(const Spread& spread) {
  const double farthest = std::max(spread.max - spread.median, spread.median - spread.min);
  return absl::StrFormat(" ±%.0f%%", std::ceil(farthest / std::fabs(spread.median) * 100));
}

// The median, and how far the repeats went where that shows.
std::string Show(const Spread& spread, const Format& format, TableStyle style) {
  const std::string median = format(spread.median);
  const std::string low = format(spread.min), high = format(spread.max);
  if (low == high) return median;
  if (style == TableStyle::kReport) return absl::StrCat(median, " (", low, " to ", high, ")");
  if (spread.median == 0) return absl::StrCat(low, " to ", high);
  return median + Distance(spread);
}

std::string Bytes(double value) { return absl::StrCat(Whole(value), " bytes"); }

Format BytesFormat(TableStyle style) {
  return style == TableStyle::kReport ? Format(Bytes) : Format(FormatBytes);
}

std::string ShowServers(const std::map<std::string, double>& sent, TableStyle style) {
  if (sent.empty()) return "-";
  std::string text;
  double sum = 0;
  for (const auto& [server, bytes] : sent) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", server, " ", Bytes(bytes));
    sum += bytes;
  }
  return style == TableStyle::kReport ? text : FormatBytes(sum);
}

// Selects the workers' total or dense traffic of a run.
using WorkersOf = const std::vector<WorkerTraffic>& (*)(const MeasuredRun&);

const std::vector<WorkerTraffic>& All(const MeasuredRun& run) { return run.workers; }
const std::vector<WorkerTraffic>& Dense(const MeasuredRun& run) { return run.dense; }
const std::vector<WorkerTraffic>& Predicted(const MeasuredRun& run) {
  return run.predicted.workers;
}

// Over the workers of all repeats.
std::string ShowWorkers(const RoadResult& road, WorkersOf workers, double WorkerTraffic::*direction,
                        TableStyle style) {
  std::vector<double> values;
  for (const MeasuredRun& run : road.runs) {
    for (const WorkerTraffic& worker : workers(run)) values.push_back(worker.*direction);
  }
  return values.empty() ? "-" : Show(SpreadOf(std::move(values)), BytesFormat(style), style);
}

// The cell of a prediction: what is predicted, and a mark where a run did not match it; in a
// terminal only whether all runs did.
std::string Verdict(const RoadResult& road, const std::string& predicted,
                    const std::function<bool(const MeasuredRun&)>& match, TableStyle style) {
  const bool matched = std::all_of(road.runs.begin(), road.runs.end(), match);
  if (style == TableStyle::kReport) return matched ? predicted : predicted + kNotAsPredicted;
  if (!matched) return kNotMatched;
  return predicted == "-" ? "-" : "to the byte";
}

std::string ShowLargest(const RoadResult& road, uint64_t MeasuredRun::*bytes) {
  uint64_t largest = 0;
  for (const MeasuredRun& run : road.runs) largest = std::max(largest, run.*bytes);
  return largest == 0 ? "-" : FormatBytes(static_cast<double>(largest));
}

bool IsEvaluated(const Comparison& comparison) {
  return std::all_of(comparison.roads.begin(), comparison.roads.end(), [](const RoadResult& road) {
    return std::none_of(road.runs.begin(), road.runs.end(),
                        [](const MeasuredRun& run) { return run.curve.empty(); });
  });
}

// Returns whether some run was evaluated before its end, so that its best may not be its last.
bool EvaluatedInBetween(const Comparison& comparison) {
  return std::any_of(comparison.roads.begin(), comparison.roads.end(), [](const RoadResult& road) {
    return std::any_of(road.runs.begin(), road.runs.end(),
                       [](const MeasuredRun& run) { return run.curve.size() > 1; });
  });
}

// Shows a figure that not all runs have.
std::string ShowKnown(const RoadResult& road, double MeasuredRun::*figure, const Format& format,
                      TableStyle style) {
  const Spread spread = road.Of(figure);
  return spread.min == 0 ? "-" : Show(spread, format, style);
}

std::string ShowOperations(const RoadResult& road, TableStyle style) {
  const auto giga = [](double flops) { return absl::StrCat(FormatNumber(flops / 1e9), " GFLOP"); };
  return ShowKnown(road, &MeasuredRun::planned_step_flops, giga, style);
}

// The table of ways that differ in memory, bytes and speed, but not in what a step learns.
std::vector<std::vector<std::string>> WaysTable(const Comparison& comparison, TableStyle style) {
  const bool schedules = comparison.of == Comparison::Of::kSchedules;
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const RoadResult& stage : comparison.roads) rows[0].push_back(stage.road);
  const auto add = [&](const std::string& name,
                       const std::function<std::string(const RoadResult&)>& cell) {
    rows.push_back({name});
    for (const RoadResult& stage : comparison.roads) rows.back().push_back(cell(stage));
  };
  const auto add_figure = [&](const std::string& name, double MeasuredRun::*figure,
                              const Format& format) {
    add(name, [&](const RoadResult& stage) { return Show(stage.Of(figure), format, style); });
  };
  if (IsEvaluated(comparison)) {
    add("held-out loss",
        [&](const RoadResult& stage) { return Show(stage.LastLoss(), FormatLoss, style); });
  }
  add_figure("training loss", &MeasuredRun::training_loss, FormatLoss);
  add_figure("steps/s", &MeasuredRun::steps_per_second, FormatNumber);
  const auto add_ratio = [&](const std::string& name,
                             const std::function<double(const RoadResult&)>& whole) {
    add(name, [&](const RoadResult& stage) {
      const double divisor = whole(stage);
      if (divisor == 0) return std::string("-");
      return FormatPercent(stage.Of(&MeasuredRun::steps_per_second).median / divisor);
    });
  };
  add_ratio(absl::StrCat("  of ", comparison.roads[0].road, "'s"), [&](const RoadResult&) {
    return comparison.roads[0].Of(&MeasuredRun::steps_per_second).median;
  });
  if (schedules) {
    const auto add_known = [&](const std::string& name, double MeasuredRun::*figure,
                               const Format& format) {
      add(name, [&](const RoadResult& stage) { return ShowKnown(stage, figure, format, style); });
    };
    add_known("  predicted", &MeasuredRun::predicted_steps_per_second, FormatNumber);
    add_ratio("  of predicted", [](const RoadResult& stage) {
      return stage.Of(&MeasuredRun::predicted_steps_per_second).median;
    });
    add_known("bubble", &MeasuredRun::bubble, FormatPercent);
    add_known("  predicted", &MeasuredRun::predicted_bubble, FormatPercent);
  }
  add("a step's operations", [&](const RoadResult& way) { return ShowOperations(way, style); });
  add_figure("a step's compute", &MeasuredRun::compute_seconds, FormatTime);
  add_figure("exposed communication", &MeasuredRun::communication_seconds, FormatTime);
  add_figure("waiting for data", &MeasuredRun::waiting_seconds, FormatTime);
  add("a worker's memory", [](const RoadResult& stage) {
    return ShowLargest(stage, &MeasuredRun::worker_own_peak_bytes);
  });
  add("  planned", [](const RoadResult& stage) {
    return ShowLargest(stage, &MeasuredRun::planned_worker_own_bytes);
  });
  const auto add_traffic = [&](const std::string& name, double WorkerTraffic::*direction) {
    add(name, [&](const RoadResult& stage) { return ShowWorkers(stage, Dense, direction, style); });
    add("  predicted",
        [&](const RoadResult& stage) { return ShowWorkers(stage, Predicted, direction, style); });
    add("  as predicted", [&](const RoadResult& stage) {
      const auto match = [&](const MeasuredRun& run) { return WorkersMatch(run, direction); };
      return Verdict(stage, "yes", match, TableStyle::kTerminal);
    });
  };
  add_traffic("sends a step", &WorkerTraffic::sent);
  add_traffic("receives a step", &WorkerTraffic::received);
  return rows;
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {.median = median, .min = values.front(), .max = values.back()};
}

Spread RoadResult::Of(double MeasuredRun::*figure) const {
  std::vector<double> values;
  for (const MeasuredRun& run : runs) values.push_back(run.*figure);
  return SpreadOf(std::move(values));
}

Spread RoadResult::LastLoss() const {
  std::vector<double> values;
  for (const MeasuredRun& run : runs)
    values.push_back(run.curve.empty() ? 0 : run.curve.back().loss);
  return SpreadOf(std::move(values));
}

Spread RoadResult::LastMetric() const {
  std::vector<double> values;
  for (const MeasuredRun& run : runs) {
    values.push_back(run.curve.empty() ? 0 : run.curve.back().metric.value_or(0));
  }
  return SpreadOf(std::move(values));
}

std::vector<CurvePoint> RoadResult::BestPoints() const {
  std::vector<CurvePoint> points;
  for (const MeasuredRun& run : runs) {
    const CurvePoint* best = nullptr;
    for (const CurvePoint& point : run.curve) {
      if (!point.metric.has_value()) continue;
      const bool better =
          best == nullptr || (HigherIsBetter(run.metric) ? *point.metric > *best->metric
                                                         : *point.metric < *best->metric);
      if (better) best = &point;
    }
    if (best != nullptr) points.push_back(*best);
  }
  return points;
}

std::vector<int> OrderOfRoads(int roads, int repeat) {
  std::vector<int> order(roads);
  std::iota(order.begin(), order.end(), 0);
  if (repeat % 2 == 1) std::reverse(order.begin(), order.end());
  return order;
}

std::vector<std::vector<std::string>> ComparisonTable(const Comparison& comparison,
                                                      TableStyle style) {
  if (comparison.of != Comparison::Of::kRoads) return WaysTable(comparison, style);
  std::vector<std::vector<std::string>> rows = {{""}};
  for (const RoadResult& road : comparison.roads) rows[0].push_back(road.road);
  const auto add = [&](const std::string& name,
                       const std::function<std::string(const RoadResult&)>& cell) {
    rows.push_back({name});
    for (const RoadResult& road : comparison.roads) rows.back().push_back(cell(road));
  };
  const auto add_figure = [&](const std::string& name, double MeasuredRun::*figure,
                              const std::function<std::string(double)>& format) {
    add(name, [&](const RoadResult& road) { return Show(road.Of(figure), format, style); });
  };
  const bool evaluated = IsEvaluated(comparison);
  add("held-out loss", [&](const RoadResult& road) {
    return evaluated ? Show(road.LastLoss(), FormatLoss, style) : "-";
  });
  const std::string metric = comparison.roads.empty() ? "" : comparison.roads[0].runs[0].metric;
  if (evaluated && !metric.empty() && metric != "loss") {
    add(absl::StrCat("held-out ", metric), [&](const RoadResult& road) {
      const bool has_value =
          std::all_of(road.runs.begin(), road.runs.end(),
                      [](const MeasuredRun& run) { return run.curve.back().metric.has_value(); });
      return has_value ? Show(road.LastMetric(), FormatLoss, style) : "-";
    });
  }
  if (evaluated && EvaluatedInBetween(comparison)) {
    const auto add_best = [&](const std::string& name, const Format& format,
                              const std::function<double(const CurvePoint&)>& figure) {
      add(name, [&](const RoadResult& road) {
        std::vector<double> values;
        for (const CurvePoint& point : road.BestPoints()) values.push_back(figure(point));
        return values.empty() ? "-" : Show(SpreadOf(std::move(values)), format, style);
      });
    };
    add_best(absl::StrCat("best held-out ", metric), FormatLoss,
             [](const CurvePoint& point) { return *point.metric; });
    add_best("  at step", Whole,
             [](const CurvePoint& point) { return static_cast<double>(point.step); });
  }
  add("steps", [](const RoadResult& road) { return Whole(road.runs[0].steps); });
  add("  left out as warm-up", [&](const RoadResult& road) {
    std::vector<double> steps;
    for (const MeasuredRun& run : road.runs) steps.push_back(run.warmup_steps);
    return Show(SpreadOf(std::move(steps)), Whole, style);
  });
  add_figure("time", &MeasuredRun::training_seconds, FormatTime);
  add_figure("mean staleness", &MeasuredRun::mean_staleness, FormatNumber);
  add_figure("largest staleness", &MeasuredRun::max_staleness, Whole);
  add_figure("steps/s", &MeasuredRun::steps_per_second, FormatNumber);
  add_figure("examples/s", &MeasuredRun::examples_per_second, FormatNumber);
  add("step: operations", [&](const RoadResult& road) { return ShowOperations(road, style); });
  add_figure("step: compute", &MeasuredRun::compute_seconds, FormatTime);
  add_figure("step: exposed communication", &MeasuredRun::communication_seconds, FormatTime);
  add_figure("step: waiting for data", &MeasuredRun::waiting_seconds, FormatTime);
  const std::string predicted = style == TableStyle::kReport ? "  predicted" : "  as predicted";
  const auto add_traffic = [&](const std::string& name, const std::string& dense,
                               double WorkerTraffic::*direction) {
    const auto add_row = [&](const std::string& row, WorkersOf workers) {
      add(row,
          [&](const RoadResult& road) { return ShowWorkers(road, workers, direction, style); });
    };
    add_row(name, All);
    add_row(dense, Dense);
    add(predicted, [&](const RoadResult& road) {
      const auto match = [&](const MeasuredRun& run) { return WorkersMatch(run, direction); };
      return Verdict(road, ShowWorkers(road, Predicted, direction, style), match, style);
    });
  };
  add_traffic("a worker sends per step", "  of it dense gradients", &WorkerTraffic::sent);
  add_traffic("a worker receives per step", "  of it dense parameters", &WorkerTraffic::received);
  add("servers send per step, dense",
      [&](const RoadResult& road) { return ShowServers(road.runs[0].server_sent, style); });
  add(predicted, [&](const RoadResult& road) {
    return Verdict(road, ShowServers(road.runs[0].predicted.server_sent, style), ServersMatch,
                   style);
  });
  add_figure("CPU time of the workers", &MeasuredRun::worker_cpu_seconds, FormatTime);
  add_figure("CPU time of the servers", &MeasuredRun::server_cpu_seconds, FormatTime);
  add("largest worker's peak memory",
      [](const RoadResult& road) { return ShowLargest(road, &MeasuredRun::worker_peak_bytes); });
  add("the servers' peak memory",
      [](const RoadResult& road) { return ShowLargest(road, &MeasuredRun::server_peak_bytes); });
  return rows;
}

std::vector<std::string> TrafficMismatches(const Comparison& comparison) {
  std::vector<std::string> lines;
  for (const RoadResult& road : comparison.roads) {
    for (const MeasuredRun& run : road.runs) {
      for (const std::string& line : TrafficMismatches(run)) {
        lines.push_back(absl::StrCat(road.road, ", run ", run.repeat + 1, ": ", line));
      }
    }
  }
  return lines;
}

}  // namespace muster
