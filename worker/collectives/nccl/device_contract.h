#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/communicator.h"

namespace muster {

// What Communicator promises, as checks on device memory that every rank runs at the same time: on
// GPUs, or on a stand-in for CUDA and NCCL.
struct DeviceContract {
  const char* name;
  // What it does to the group.
  enum class Leaves { kWhole, kFailed, kWithoutLastRank } leaves;
  int least_ranks;
  // What this rank saw that the contract does not allow; OK if nothing. Inputs are small integers,
  // so that sums are exact in any order; the reference is ReduceInto.
  absl::Status (*run)(Communicator& group);
  // kMany: thousands. Where calls are slow, two ranks that make them show enough.
  enum class Calls { kFew, kMany } calls = Calls::kFew;
};

// Those with kWhole can run one after another in one group. The last rank of kWithoutLastRank calls
// StopLastRank, which does not return on it.
absl::Span<const DeviceContract> DeviceContracts();

// Those among them in which ranks disagree, stay away or die, or come late.
absl::Span<const DeviceContract> DeviceFailureContracts();

// How the last rank is made to stop, and how long after that the others' calls may take to end with
// an error that names it: the test's choice, before the ranks start.
void SetStopLastRank(void (*stop)(), absl::Duration named_within);

// How the rank that calls it is made to stand still, with all that reports for it, and how it
// waits, until the other ranks' calls have ended, which happens within the time given: the test's
// choice, likewise.
void SetStandStill(void (*stand_still)(absl::Duration));
void SetAwaitOthers(void (*await_others)(absl::Duration));

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_DEVICE_CONTRACT_H_
