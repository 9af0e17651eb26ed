#ifndef MUSTER_CLIENT_COMPARE_COMPARISON_H_
#define MUSTER_CLIENT_COMPARE_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/compare/measured_run.h"

namespace muster {

// A figure over the repeats of a road.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// REQUIRES: not empty.
Spread SpreadOf(std::vector<double> values);

// All repeats of one road.
struct RoadResult {
  std::string road;
  // In order of repeat; never empty.
  std::vector<MeasuredRun> runs;

  // Of one figure of the runs.
  Spread Of(double MeasuredRun::*figure) const;
  // Of the loss and metric at the runs' last evaluation.
  Spread LastLoss() const;
  Spread LastMetric() const;
};

// What was compared, and how.
struct Comparison {
  std::string job;
  int workers = 0;
  int servers = 0;
  int processors = 0;
  int batch_size = 0;
  std::vector<RoadResult> roads;
  // Roads that the job cannot take, with the reason.
  std::vector<std::string> left_out;
};

// The order in which repeat `repeat` takes `roads` of them: forth, back, forth, …, so that what
// drifts on a machine falls on all alike.
std::vector<int> OrderOfRoads(int roads, int repeat);

// How a cell of the report's table ends whose prediction a run did not meet to the byte.
inline constexpr char kNotAsPredicted[] = ", NOT AS PREDICTED";

// Who reads a table.
enum class TableStyle {
  // At most 100 columns for four roads: medians with how far runs lie from them ("110 ±10%"), bytes
  // in KiB and so on, and whether traffic is as predicted.
  kTerminal,
  // Medians with the least and the most, bytes and predictions to the byte, each server.
  kReport,
};

// The table of `muster compare` and its report: one column per road. A worker's bytes are the
// median over all workers of all repeats, servers' are those of the first repeat.
std::vector<std::vector<std::string>> ComparisonTable(const Comparison& comparison,
                                                      TableStyle style);

// Every process that moved other dense parameters than predicted, a line for each: "all-reduce, run
// 2: slot 1 sends …".
std::vector<std::string> TrafficMismatches(const Comparison& comparison);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_COMPARISON_H_
