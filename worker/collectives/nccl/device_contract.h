#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/communicator.h"

namespace muster {

// One of Communicator's promises, as a check on device memory that every rank runs at the same
// time: on GPUs, or on a stand-in for CUDA and NCCL.
struct DeviceContract {
  const char* name;
  // The state in which the check leaves the group.
  enum class Leaves { kWhole, kFailed, kWithoutLastRank } leaves;
  int least_ranks;
  // Returns what this rank saw that the contract does not allow; OK if nothing. Inputs are small
  // integers, so that sums are exact in any order; the reference is ReduceInto.
  absl::Status (*run)(Communicator& group);
  // kMany: thousands. If calls are slow, two ranks that make them show enough.
  enum class Calls { kFew, kMany } calls = Calls::kFew;
};

// Returns all checks. Those with kWhole can run one after another in one group. The last rank of
// kWithoutLastRank stops as SetStopLastRank says, and does not return.
absl::Span<const DeviceContract> DeviceContracts();

// Returns those of DeviceContracts in which ranks disagree, stay away or die, or come late.
absl::Span<const DeviceContract> DeviceFailureContracts();

// Sets how the last rank stops, and the time after which the others' calls must have ended with an
// error that names it. Called before the ranks start.
void SetStopLastRank(void (*stop)(), absl::Duration named_within);

// Set how the calling rank stands still, with all that reports for it, and how it waits until the
// other ranks' calls have ended, within the given time. Called before the ranks start.
void SetStandStill(void (*stand_still)(absl::Duration));
void SetAwaitOthers(void (*await_others)(absl::Duration));

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_
