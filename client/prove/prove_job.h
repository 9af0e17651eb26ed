#ifndef MUSTER_CLIENT_PROVE_PROVE_JOB_H_
#define MUSTER_CLIENT_PROVE_PROVE_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/prove/proof_jobs.h"
#include "client/prove/weights_difference.h"
#include "proto/job.pb.h"

namespace muster {

namespace v1 {
class JobStatus;
}  // namespace v1

// A step of a job on its mesh beside the same step by one process.
struct ComparedStep {
  ProofClipping clipping = ProofClipping::kNone;
  // The norms of the mean gradients, before clipping.
  double norm = 0;
  double expected_norm = 0;
  // They are of the gradient as the step used it, by tensor in forward order; and what each may be.
  std::vector<TensorDifference> tensors;
  std::vector<double> allowed;

  bool norms_agree(double tolerance) const;
  // Returns the first tensor that differs by more than it may; null: none does.
  const TensorDifference* first_wrong() const;
};

struct Proof {
  // The job as it was proved.
  v1::JobSpec job;
  std::vector<std::string> notes;
  double tolerance = 0;
  // The gradient, and if the job clips, the gradient that it clips.
  std::vector<ComparedStep> steps;

  bool holds() const;
};

struct ProofOptions {
  // Flags of the cluster's workers.
  std::vector<std::string> worker_flags = {};
  // Changes the job that runs on the mesh: for tests, to plant a mistake.
  std::function<void(v1::JobSpec&)> change_mesh = [](v1::JobSpec&) {};
  // Called before each run with its name, with each status during it, and after it.
  std::function<void(const std::string&)> starting = [](const std::string&) {};
  std::function<void(const v1::JobStatus&)> changed = [](const v1::JobStatus&) {};
  std::function<void()> ended = [] {};
};

// Makes one step of the job on its mesh and by one process, on a cluster of its own on this
// machine, and compares them. `spec` is valid and has its defaults. Errors are MakeProofJobs' and
// StartLocalCluster's. FailedPrecondition: a run did not succeed; says why.
absl::StatusOr<Proof> ProveJob(const v1::JobSpec& spec, const ProofOptions& options);

}  // namespace muster

#endif  // MUSTER_CLIENT_PROVE_PROVE_JOB_H_
