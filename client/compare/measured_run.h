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
#include "common/plan/calls/step_traffic.h"
#include "proto/job.pb.h"
#include "proto/metrics.pb.h"

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// The held-out loss and metric at one point of a run.
struct CurvePoint {
  uint64_t step = 0;
  uint64_t examples = 0;
  double seconds = 0;
  double loss = 0;
  // Absent if the metric has no value there.
  std::optional<double> metric;
};

// One job, run from start to end on a cluster of its own. A step's times and bytes leave the
// warm-up out; times are the mean over the workers.
struct MeasuredRun {
  std::string road;
  int repeat = 0;
  std::string metric;
  std::vector<CurvePoint> curve;
  // The job as it ran, when it started, and its history, except for what concerns single slots.
  v1::JobSpec spec;
  int64_t started_unix_ms = 0;
  std::vector<v1::Series> history;

  uint64_t steps = 0;
  uint64_t warmup_steps = 0;
  double training_seconds = 0;
  // In clocks, over the whole run.
  double mean_staleness = 0;
  double max_staleness = 0;
  double steps_per_second = 0;
  double examples_per_second = 0;
  // Parts of a step's time, which add up to it.
  double compute_seconds = 0;
  double communication_seconds = 0;
  double waiting_seconds = 0;
  // Payload of a step, by slot: in total, and of dense parameters and gradients alone, which the
  // layout predicts.
  std::vector<WorkerTraffic> workers;
  std::vector<WorkerTraffic> dense;
  // Bytes of dense parameters that each server sends in a step, by id. Servers do not know when the
  // warm-up ended, so this is over the whole run; an evaluation counts as a step, since it pulls as
  // much.
  std::map<std::string, double> server_sent;
  PredictedTraffic predicted;
  // Floating-point operations of a step, as `muster plan` counts them (StepCosts): those of
  // attention are fewer where documents are kept apart.
  double planned_step_flops = 0;
  // Of a pipeline whose steps were traced, from the times of its passes (pass_times.h): the speed
  // to expect of its schedule, and the time that stages wait by the time that they compute. 0: not
  // known.
  double predicted_steps_per_second = 0;
  double bubble = 0;
  double predicted_bubble = 0;
  // CPU time of the whole run.
  double worker_cpu_seconds = 0;
  double server_cpu_seconds = 0;
  // The mean training loss of the last reported steps.
  double training_loss = 0;
  // Peak memory of the largest worker; the same without memory that other processes created and the
  // worker maps; the plan of the latter (MemoryPlan::worker_own_bytes); and the sum of the servers'
  // peaks.
  uint64_t worker_peak_bytes = 0;
  uint64_t worker_own_peak_bytes = 0;
  uint64_t planned_worker_own_bytes = 0;
  uint64_t server_peak_bytes = 0;
};

struct MeasureOptions {
  int servers = 2;
  uint64_t warmup_steps = 0;
  // Steps that are traced after the warm-up if the job has a pipeline; 0: none.
  uint32_t traced_steps = 0;
  // Flags of the cluster's workers; those of AddCollectiveFlags choose the transport of all-reduce.
  std::vector<std::string> worker_flags = {};
  // Called with each new status.
  std::function<void(const v1::JobStatus&)> changed = [](const v1::JobStatus&) {};
};

// Starts a cluster for the job, runs the job there, and stops the cluster. FailedPrecondition: the
// job did not succeed; the error says why. Errors name the folder with the logs, which then stays.
absl::StatusOr<MeasuredRun> MeasureRun(const v1::JobSpec& job, const Road& road,
                                       const MeasureOptions& options);

// Returns the figures of a job that has ended, as far as its status has them. `warm`: the job's
// status at the end of the warm-up, or an empty one; not used if the warm-up is more than half of
// the run.
MeasuredRun Figures(const v1::JobStatus& warm, const v1::JobStatus& end);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_MEASURED_RUN_H_
