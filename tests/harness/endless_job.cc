#include "tests/harness/endless_job.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "proto/adjustment.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// More than any test waits for.
constexpr uint64_t kEndless = 1'000'000;

}  // namespace

v1::JobSpec Endless(v1::JobSpec spec, uint64_t checkpoint_steps) {
  spec.mutable_stop()->set_steps(kEndless);
  spec.mutable_checkpoint()->set_every_steps(checkpoint_steps);
  return spec;
}

absl::StatusOr<v1::JobStatus> AwaitRunning(ProcessCluster& cluster, const std::string& job_id) {
  return cluster.Await(job_id, [](const v1::JobStatus& status) {
    return status.checkpoint_clock() > 0 && status.progress().step() > 0;
  });
}

absl::StatusOr<v1::JobStatus> AwaitCheckpointSince(ProcessCluster& cluster,
                                                   const std::string& job_id) {
  v1::JobStatus now;
  MUSTER_RETURN_IF_ERROR(cluster.jobs().Get(job_id, now));
  // The next one may have been cut before now; the one after it is cut when that is committed.
  return cluster.Await(job_id, [&](const v1::JobStatus& status) {
    return status.checkpoint_clock() >
           now.checkpoint_clock() + 2 * now.spec().checkpoint().every_steps();
  });
}

float MostApart(const ExportedTensors& a, const ExportedTensors& b) {
  float most = 0;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return INFINITY;
    const std::vector<float> one = tensor.Floats(), two = other->second.Floats();
    if (one.size() != two.size()) return INFINITY;
    for (size_t i = 0; i < one.size(); ++i) most = std::max(most, std::abs(one[i] - two[i]));
  }
  return most;
}

namespace {

// Returns the specification by which a job with a fixed number of workers has the batches that were
// decided for one whose workers came and went.
v1::JobSpec WithBatchesAsDecided(v1::JobSpec spec, const v1::JobStatus& status, uint64_t end) {
  spec.clear_scale_batch();
  spec.clear_min_workers();
  spec.clear_max_workers();
  for (const v1::Adjustment& each : status.adjustments()) {
    if (each.clock() == 0) spec.set_batch_size(each.batch_size());
    if (each.clock() == 0 || each.clock() >= end) continue;
    v1::BatchChange& change = *spec.add_batch_changes();
    change.set_step(each.clock());
    change.set_batch_size(each.batch_size());
  }
  return spec;
}

// Returns what a job's last checkpoint has of its tensors.
absl::StatusOr<ExportedTensors> ExportAll(ProcessCluster& cluster, const std::string& job_id,
                                          const v1::JobSpec& spec) {
  MUSTER_ASSIGN_OR_RETURN(ExportedTensors tensors, cluster.Export(job_id));
  if (spec.optimizer().average_decay() == 0) return tensors;
  v1::CheckpointRequest averages;
  averages.set_job_id(job_id);
  averages.set_averaged(true);
  MUSTER_ASSIGN_OR_RETURN(ExportedTensors averaged, cluster.Export(averages));
  for (auto& [name, tensor] : averaged) tensors["average/" + name] = std::move(tensor);
  return tensors;
}

}  // namespace

absl::StatusOr<Weights> EndAndTrainUndisturbed(ProcessCluster& cluster, const std::string& job_id) {
  v1::JobStatus status;
  MUSTER_RETURN_IF_ERROR(cluster.jobs().Cancel(job_id, "the test has seen enough", status));
  MUSTER_ASSIGN_OR_RETURN(status, cluster.AwaitEnd(job_id));
  Weights weights;
  weights.clock = status.checkpoint_clock();
  v1::JobSpec spec = status.spec();
  MUSTER_ASSIGN_OR_RETURN(weights.disturbed, ExportAll(cluster, job_id, spec));
  spec.mutable_stop()->set_steps(weights.clock);
  if (spec.scale_batch()) spec = WithBatchesAsDecided(std::move(spec), status, weights.clock);
  // Neither durability nor checkpoints are a matter of the weights.
  spec.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
  spec.clear_checkpoint();
  MUSTER_ASSIGN_OR_RETURN(const std::string undisturbed, cluster.Submit(spec));
  MUSTER_ASSIGN_OR_RETURN(status, cluster.AwaitEnd(undisturbed));
  if (status.state() != v1::SUCCEEDED) {
    return absl::InternalError(absl::StrCat("the undisturbed job failed: ", status.message()));
  }
  MUSTER_ASSIGN_OR_RETURN(weights.undisturbed, ExportAll(cluster, undisturbed, spec));
  return weights;
}

}  // namespace muster
