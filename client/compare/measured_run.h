#ifndef MUSTER_CLIENT_COMPARE_MEASURED_RUN_H_
#define MUSTER_CLIENT_COMPARE_MEASURED_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/compare/roads.h"
#include "client/compare/traffic_prediction.h"

namespace muster {

namespace v1 {
class JobSpec;
class JobStatus;
}  // namespace v1

// The held-out loss and metric at one point of a run.
struct CurvePoint {
  uint64_t step = 0;
  uint64_t examples = 0;
  double seconds = 0;
  double loss = 0;
  // Absent: the metric has no value there.
  std::optional<double> metric;
};

// One job, run from its start to its end on a cluster of its own. Times and bytes of a step leave
// the warm-up out; times are the mean over the workers.
struct MeasuredRun {
  std::string road;
  int repeat = 0;
  std::string metric;
  std::vector<CurvePoint> curve;

  uint64_t steps = 0;
  uint64_t warmup_steps = 0;
  double training_seconds = 0;
  // In clocks, over the whole run.
  double mean_staleness = 0;
  double max_staleness = 0;
  double steps_per_second = 0;
  double examples_per_second = 0;
  // Parts of a step; they add up to its time.
  double compute_seconds = 0;
  double communication_seconds = 0;
  double waiting_seconds = 0;
  // Payload of a step, by slot: all of it, and dense parameters (gradients) alone, which the layout
  // predicts.
  std::vector<WorkerTraffic> workers;
  std::vector<WorkerTraffic> dense;
  // Dense parameters that each server sends in a step, by id. Servers do not know when the warm-up
  // ended: over the whole run, where an evaluation counts as a step, since it pulls as much.
  std::map<std::string, double> server_sent;
  PredictedTraffic predicted;
  // Of the whole run.
  double worker_cpu_seconds = 0;
  double server_cpu_seconds = 0;
  // The largest worker, and the sum over the servers.
  uint64_t worker_peak_bytes = 0;
  uint64_t server_peak_bytes = 0;
};

struct MeasureOptions {
  int servers = 2;
  uint64_t warmup_steps = 0;
  // Of the cluster; those of AddCollectiveFlags say which way all-reduce goes.
  std::vector<std::string> worker_flags = {};
  // Called with each new status.
  std::function<void(const v1::JobStatus&)> changed = [](const v1::JobStatus&) {};
};

// Starts a cluster for the job, runs it there, and stops the cluster. FailedPrecondition: the job
// ended other than well (says why). Errors name the folder with the logs, which then stays.
absl::StatusOr<MeasuredRun> MeasureRun(const v1::JobSpec& job, const Road& road,
                                       const MeasureOptions& options);

// The figures of a job that has ended, as far as its status tells them. `warm`: its status when the
// warm-up was over, or an empty one; it is not used if more than half of the run lies before it.
MeasuredRun Figures(const v1::JobStatus& warm, const v1::JobStatus& end);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_MEASURED_RUN_H_
