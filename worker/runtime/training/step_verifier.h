#ifndef MUSTER_WORKER_RUNTIME_TRAINING_STEP_VERIFIER_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_STEP_VERIFIER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/sampler.h"
#include "worker/runtime/coordinator_client/coordinator_client.h"
#include "worker/runtime/training/step_check.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Returns whether a step is compared with what other data ranks make of it: each `verify_every`-th
// one, unless there is one data rank.
bool IsVerified(const v1::JobSpec& spec, int data_ranks, uint64_t clock);

// Compares a step with what other data ranks make of it. Each computes the share of the next data
// rank, too, and tells the coordinator the fingerprints of both. Where these differ the coordinator
// asks for the shares of data ranks further on, until it knows who is wrong. Shares of all data
// ranks are computed with the same parameters, random numbers and sizes of micro-batches whoever
// computes them, and so come to the same bits (docs/operations.md says on which machines).
class StepVerifier final : public StepCheck {
 public:
  // The data and the sampler of the step, this task's data rank, and what its bits depend on beside
  // the share (VerifyStepRequest.processor). What is referred to outlives the verifier.
  struct Parts {
    const Dataset& dataset;
    const Sampler& sampler;
    const Clock& clock;
    CoordinatorClient& coordinator;
    int data_rank = 0;
    int data_ranks = 1;
    std::string processor;
  };
  explicit StepVerifier(Parts parts) : parts_(std::move(parts)) {}

  // Returns OK if the step is right. Otherwise errors of TaskService.VerifyStep, of the data and of
  // the engine.
  absl::Status Check(uint64_t clock, uint64_t gradients, Recompute recompute) override;

  // Returns the coordinator's error if that ended Check, otherwise OK.
  const absl::Status& coordinator_status() const { return coordinator_status_; }
  // Returns the time that Check has waited for the other ranks.
  absl::Duration waited() const { return waited_; }

 private:
  const Parts parts_;
  absl::Status coordinator_status_;
  absl::Duration waited_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_STEP_VERIFIER_H_
