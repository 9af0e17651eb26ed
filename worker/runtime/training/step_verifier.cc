#include "worker/runtime/training/step_verifier.h"

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/training/micro_batch_reader.h"

namespace muster {
namespace {

void AddShare(int data_rank, uint64_t gradients, v1::VerifyStepRequest& request) {
  v1::ShareFingerprint& share = *request.add_shares();
  share.set_data_rank(data_rank);
  share.set_gradients(gradients);
}

}  // namespace

bool IsVerified(const v1::JobSpec& spec, int data_ranks, uint64_t clock) {
  return spec.verify_every() > 0 && data_ranks > 1 && (clock + 1) % spec.verify_every() == 0;
}

absl::Status StepVerifier::Check(uint64_t clock, uint64_t gradients, Recompute recompute) {
  v1::VerifyStepRequest request;
  request.set_clock(clock);
  request.set_processor(parts_.processor);
  AddShare(parts_.data_rank, gradients, request);
  for (uint32_t distance = 1; distance > 0;) {
    const int share = static_cast<int>((parts_.data_rank + distance) % parts_.data_ranks);
    MicroBatchReader reader(parts_.dataset, parts_.sampler, share,
                            {.start_clock = clock, .end_clock = clock + 1}, parts_.clock);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t others, recompute(reader));
    AddShare(share, others, request);
    const absl::Duration started = parts_.clock.Monotonic();
    const absl::StatusOr<v1::VerifyStepReply> reply = parts_.coordinator.VerifyStep(request);
    waited_ += parts_.clock.Monotonic() - started;
    coordinator_status_ = reply.status();
    MUSTER_RETURN_IF_ERROR(coordinator_status_);
    distance = reply->next_distance();
    request.set_attempt(request.attempt() + 1);
  }
  return absl::OkStatus();
}

}  // namespace muster
