// Checks of Communicator's promises when ranks disagree, stay away, abort or die.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "worker/collectives/nccl/device_contract.h"
#include "worker/collectives/nccl/device_memory_for_testing.h"

namespace muster {
namespace {

using Leaves = DeviceContract::Leaves;

void (*stop_last_rank)() = nullptr;
void (*stand_still)(absl::Duration) = nullptr;
void (*await_others)(absl::Duration) = nullptr;
absl::Duration lost_rank_named_within;

// Timeout of calls that are to miss it; and the time after which they have ended for certain.
constexpr absl::Duration kMissed = absl::Milliseconds(200);
constexpr absl::Duration kGivenUp = absl::Seconds(4);

absl::Status Wrong(const std::string& what) { return absl::InternalError(what); }

absl::Status WantFailure(const absl::Status& got, absl::StatusCode code, const std::string& text) {
  if (got.code() == code && got.message().find(text) != std::string::npos) return absl::OkStatus();
  return Wrong(absl::StrCat("wanted ", absl::StatusCodeToString(code), " with '", text, "', got ",
                            got.ToString()));
}

// Returns a sum of four f32.
CollectiveCall SmallSum(const DeviceMemory& data) {
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = 4;
  call.in = call.out = data.data();
  return call;
}

// Makes `call` on all ranks; on the last one as `other` says, or not at all.
absl::Status Disagree(Communicator& group, absl::StatusCode code, const std::string& text,
                      void (*other)(CollectiveCall&)) {
  DeviceMemory data(4096);
  CollectiveCall call;
  call.kind = Collective::kAllReduce;
  call.count = 64;
  call.in = call.out = data.data();
  call.timeout = absl::Seconds(5);
  call.label = "bucket 3";
  // Connects, so that what follows disagrees on the device.
  MUSTER_RETURN_IF_ERROR(group.Run(call));
  if (group.rank() == group.size() - 1) other(call);
  const absl::Status status = group.Run(call);
  MUSTER_RETURN_IF_ERROR(WantFailure(status, code, text));
  // The error is for good, and the same.
  const absl::Status later = group.Run(CollectiveCall());
  if (later != status) return Wrong(absl::StrCat("a later call returns ", later.ToString()));
  const std::vector<RecordedCall> calls = group.recorder().Calls();
  if (calls.empty() || calls.back().status != status) return Wrong("the recorder has no failure");
  return absl::OkStatus();
}

absl::Status OtherCount(Communicator& group) {
  return Disagree(group, absl::StatusCode::kFailedPrecondition,
                  absl::StrCat("rank ", group.size() - 1, " makes all_reduce f32 sum x 63"),
                  [](CollectiveCall& call) { call.count = 63; });
}

absl::Status OtherType(Communicator& group) {
  return Disagree(group, absl::StatusCode::kFailedPrecondition, "all_reduce f64",
                  [](CollectiveCall& call) { call.dtype = DType::kF64; });
}

absl::Status OtherReduction(Communicator& group) {
  return Disagree(group, absl::StatusCode::kFailedPrecondition, "all_reduce f32 prod",
                  [](CollectiveCall& call) { call.reduction = Reduction::kProd; });
}

absl::Status OtherOperation(Communicator& group) {
  return Disagree(group, absl::StatusCode::kFailedPrecondition, "makes broadcast",
                  [](CollectiveCall& call) { call.kind = Collective::kBroadcast; });
}

absl::Status MissingCall(Communicator& group) {
  DeviceMemory data(64);
  CollectiveCall call = SmallSum(data);
  call.label = "bucket 9";
  call.timeout = kMissed;
  MUSTER_RETURN_IF_ERROR(group.Run(CollectiveCall()));
  if (group.rank() == group.size() - 1) await_others(kGivenUp);
  return WantFailure(group.Run(call), absl::StatusCode::kDeadlineExceeded,
                     absl::StrCat("rank ", group.size() - 1, ": 1 calls, last barrier"));
}

// Each rank in turn comes late, but within the deadline: the others wait for it.
absl::Status SlowRank(Communicator& group) {
  const int size = group.size();
  DeviceMemory data(64);
  CollectiveCall call = SmallSum(data);
  call.timeout = absl::Seconds(30);
  const HostBytes want = Elements(DType::kF32, std::vector<double>(4, size * (size + 1) / 2));
  for (int slow = 0; slow < size; ++slow) {
    data.Write(Elements(DType::kF32, std::vector<double>(4, group.rank() + 1)));
    if (group.rank() == slow) absl::SleepFor(absl::Milliseconds(50));
    MUSTER_RETURN_IF_ERROR(group.Run(call));
    if (data.Read(0, want.size()) != want) return Wrong(absl::StrCat("rank ", slow, "'s sum"));
  }
  return absl::OkStatus();
}

// The last rank stands still for longer than the others wait.
absl::Status StoppedRank(Communicator& group) {
  DeviceMemory data(64);
  CollectiveCall call = SmallSum(data);
  call.timeout = kMissed;
  MUSTER_RETURN_IF_ERROR(group.Run(CollectiveCall()));
  if (group.rank() == group.size() - 1) {
    stand_still(kGivenUp);
    const absl::Status status = group.Run(call);
    return status.ok() ? Wrong("a call of a group that has failed is well") : absl::OkStatus();
  }
  const absl::Time begun = absl::Now();
  const absl::Status status = group.Run(call);
  if (absl::Now() - begun > kGivenUp) return Wrong("the deadline passed long before");
  return WantFailure(status, absl::StatusCode::kDeadlineExceeded,
                     absl::StrCat("rank ", group.size() - 1));
}

absl::Status AbortedByOne(Communicator& group) {
  DeviceMemory data(64);
  CollectiveCall call = SmallSum(data);
  MUSTER_RETURN_IF_ERROR(group.Run(call));
  if (group.rank() == group.size() - 1) group.Abort("the user said so");
  // Calls go well until the abort has reached all ranks.
  absl::Status status;
  while (status.ok()) status = group.Run(call);
  return WantFailure(status, absl::StatusCode::kAborted, "aborted: the user said so");
}

absl::Status LostRank(Communicator& group) {
  DeviceMemory data(64);
  CollectiveCall call = SmallSum(data);
  call.timeout = absl::Seconds(30);
  // The last rank may die before all others have seen that it made this call.
  absl::Status status = group.Run(call);
  if (group.rank() == group.size() - 1) {
    stop_last_rank();
    return absl::OkStatus();
  }
  const absl::Time begun = absl::Now();
  if (status.ok()) status = group.Run(call);
  const absl::Duration took = absl::Now() - begun;
  if (took > lost_rank_named_within) {
    return Wrong(absl::StrCat("it took ", absl::FormatDuration(took), " to notice; ",
                              absl::FormatDuration(lost_rank_named_within), " are allowed"));
  }
  return WantFailure(status, absl::StatusCode::kUnavailable,
                     absl::StrCat("rank ", group.size() - 1));
}

constexpr DeviceContract kContracts[] = {
    {"OtherCount", Leaves::kFailed, 2, OtherCount},
    {"OtherType", Leaves::kFailed, 2, OtherType},
    {"OtherReduction", Leaves::kFailed, 2, OtherReduction},
    {"OtherOperation", Leaves::kFailed, 2, OtherOperation},
    {"MissingCall", Leaves::kFailed, 2, MissingCall},
    {"SlowRank", Leaves::kWhole, 2, SlowRank},
    {"StoppedRank", Leaves::kFailed, 2, StoppedRank},
    {"AbortedByOne", Leaves::kFailed, 2, AbortedByOne},
    {"LostRank", Leaves::kWithoutLastRank, 2, LostRank},
};

}  // namespace

absl::Span<const DeviceContract> DeviceFailureContracts() { return kContracts; }

void SetStandStill(void (*how)(absl::Duration)) { stand_still = how; }

void SetAwaitOthers(void (*how)(absl::Duration)) { await_others = how; }

void SetStopLastRank(void (*stop)(), absl::Duration named_within) {
  stop_last_rank = stop;
  lost_rank_named_within = named_within;
}

}  // namespace muster
