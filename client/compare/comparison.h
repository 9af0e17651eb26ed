#ifndef MUSTER_CLIENT_COMPARE_COMPARISON_H_
#define MUSTER_CLIENT_COMPARE_COMPARISON_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/compare/measured_run.h"

namespace muster {

// One figure over the repeats of a road.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
};

// REQUIRES: not empty.
Spread SpreadOf(std::vector<double> values);

// All repeats of one road, of one ZeRO stage or of one schedule.
struct RoadResult {
  std::string road;
  // Sorted by repeat; never empty.
  std::vector<MeasuredRun> runs;

  // Returns the spread of one figure over the runs.
  Spread Of(double MeasuredRun::*figure) const;
  // Return the spread of the loss and of the metric at the runs' last evaluation.
  Spread LastLoss() const;
  Spread LastMetric() const;
  // Returns the points at which the metric was best, one of each run that has a value of it.
  std::vector<CurvePoint> BestPoints() const;
};

// A job, its measured roads, and how they were measured.
struct Comparison {
  enum class Of { kRoads, kStages, kSchedules };

  Of of = Of::kRoads;
  std::string job;
  int workers = 0;
  int servers = 0;
  int processors = 0;
  int batch_size = 0;
  std::vector<RoadResult> roads;
  // Reasons, each with its road, why the job cannot take the other roads.
  std::vector<std::string> left_out;
};

// Returns the order in which repeat `repeat` takes the roads 0 … `roads` - 1: forward, backward,
// forward, …, so that a machine's drift affects all roads alike.
std::vector<int> OrderOfRoads(int roads, int repeat);

// Ends a cell of the report's table if a run did not meet the cell's prediction to the byte.
inline constexpr char kNotAsPredicted[] = ", NOT AS PREDICTED";

// Is such a cell of the terminal's table.
inline constexpr char kNotMatched[] = "NO";

// Says who reads a table.
enum class TableStyle {
  // Shows medians with the farthest run's distance ("110 ±10%"), bytes in KiB and so on, and
  // whether traffic is as predicted. Takes at most 100 columns for four roads, 80 for four stages,
  // 106 for six schedules.
  kTerminal,
  // Shows medians with minimum and maximum, exact bytes and predictions, and each server: what the
  // report has below the terminal's table.
  kReport,
};

// Returns the table of `muster compare` or of its report: one column per road, stage or schedule. A
// worker's bytes are the median over all workers of all repeats; a server's bytes are those of the
// first repeat.
std::vector<std::vector<std::string>> ComparisonTable(const Comparison& comparison,
                                                      TableStyle style);

// Returns a line for every process that moved other dense parameters than predicted, such as
// "all-reduce, run 2: slot 1 sends …".
std::vector<std::string> TrafficMismatches(const Comparison& comparison);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_COMPARISON_H_
