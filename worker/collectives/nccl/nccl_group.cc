#include "worker/collectives/nccl/nccl_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/device/device_fault.h"
#include "worker/collectives/check_call.h"
#include "worker/collectives/nccl/device_reduce.h"
#include "worker/collectives/nccl/device_status.h"

namespace muster {
namespace {

// Scratch of a group: each fragment is large enough that launching its kernels does not show.
constexpr size_t kScratchBytes = 16 << 20;
// Interval between a waiting caller's looks at the device.
constexpr absl::Duration kDeviceLook = absl::Microseconds(30);
// Time that all ranks get to agree on one error before this rank ends with its own.
constexpr absl::Duration kAgree = absl::Milliseconds(500);
// Time for the ledger to name a rank that is gone, which NCCL notices first but cannot name.
constexpr absl::Duration kNameFirst = absl::Seconds(1);
constexpr absl::Duration kLeave = absl::Seconds(1);
constexpr absl::Duration kFinalize = absl::Seconds(5);

constexpr DType kTypes[] = {DType::kF32,   DType::kF64,   DType::kF16,  DType::kBf16,
                            DType::kInt32, DType::kInt64, DType::kUint8};

bool Reduces(Collective kind) {
  return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
         kind == Collective::kReduce;
}

}  // namespace

std::shared_ptr<Work> EndedWork(const absl::Status& status) {
  auto work = std::make_shared<Pending<bool>>();
  work->Finish(status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status));
  return work;
}

absl::Status NcclWork::Wait(absl::Duration timeout) {
  const absl::Duration until = RealClock().Monotonic() + timeout;
  while (!ended_.load(std::memory_order_acquire)) {
    if (auto group = group_.lock()) (void)group->Poll();
    const absl::Duration left = until - RealClock().Monotonic();
    if (left <= absl::ZeroDuration() && !ended_.load(std::memory_order_acquire)) {
      return absl::DeadlineExceededError(
          absl::StrCat(description_, " has not ended within ", absl::FormatDuration(timeout)));
    }
    (void)result_.Wait(std::min(left, kDeviceLook));
  }
  return result_.Wait(absl::ZeroDuration());
}

void NcclWork::OnDone(std::function<void(const absl::Status&)> done) {
  result_.OnDone(std::move(done));
}

void NcclWork::Abort(absl::Status reason) { Finish(reason); }

void NcclWork::Finish(const absl::Status& status) {
  result_.Finish(status.ok() ? absl::StatusOr<bool>(true) : absl::StatusOr<bool>(status));
  ended_.store(true, std::memory_order_release);
}

NcclGroup::NcclGroup(Parts parts) : parts_(std::move(parts)), recorder_(parts_.name) {}

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclGroup::Create(Parts parts) {
  auto group = std::shared_ptr<NcclGroup>(new NcclGroup(std::move(parts)));
  const DeviceScope scope(group->device());
  if (absl::Status prepared = group->Prepare(); !prepared.ok()) {
    group->Propose(prepared);
    return prepared;
  }
  return group;
}

absl::Status NcclGroup::Prepare() {
  const std::string what =
      absl::StrCat("group '", name(), "', rank ", rank(), ", device ", device());
  MUSTER_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(device()), what));
  // NCCL's kernels, for which other devices wait, should run as soon as they can.
  int least = 0;
  int greatest = 0;
  MUSTER_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest), what));
  MUSTER_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), what));
  MUSTER_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), what));
  if (size() == 1) return absl::OkStatus();
  void* scratch = nullptr;
  MUSTER_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&scratch, kScratchBytes), what));
  scratch_ = static_cast<std::byte*>(scratch);
  MUSTER_RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(scratch, 0, kScratchBytes, stream_), what));
  for (DType dtype : kTypes) {
    MUSTER_RETURN_IF_ERROR(CudaStatus(
        ReduceRowsOnDevice(dtype, Reduction::kSum, scratch, 1, 1, 1, scratch, stream_), what));
    MUSTER_RETURN_IF_ERROR(CudaStatus(DivideOnDevice(dtype, scratch, 1, 1, stream_), what));
  }
  return CudaStatus(cudaStreamSynchronize(stream_), what);
}

NcclGroup::~NcclGroup() {
  const DeviceScope scope(parts_.device);
  for (const auto& call : calls_) {
    if (call->done_ != nullptr) cudaEventDestroy(call->done_);
  }
  for (cudaEvent_t event : free_events_) cudaEventDestroy(event);
  if (ready_ != nullptr) cudaEventDestroy(ready_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
  if (scratch_ != nullptr) cudaFree(scratch_);
}

absl::Status NcclGroup::CheckDeviceMemory(const CollectiveCall& call) const {
  for (const void* data : {call.in, static_cast<const void*>(call.out)}) {
    if (data == nullptr) continue;
    cudaPointerAttributes attributes = {};
    MUSTER_RETURN_IF_ERROR(
        CudaStatus(cudaPointerGetAttributes(&attributes, data), "asking what a pointer is"));
    if (attributes.type == cudaMemoryTypeUnregistered) {
      return absl::InvalidArgumentError(absl::StrCat(
          Name(call.kind), ": ", data == call.in ? "`in`" : "`out`",
          " is memory of the host, which the device cannot reach; this group moves device memory"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<cudaEvent_t> NcclGroup::TakeEvent() {
  {
    absl::MutexLock lock(&mutex_);
    if (!free_events_.empty()) {
      cudaEvent_t event = free_events_.back();
      free_events_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  MUSTER_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return event;
}

absl::Status NcclGroup::Queue(absl::Span<const Begun> calls) {
  std::vector<cudaEvent_t> done;
  std::vector<CollectiveCall> queued;
  for (const Begun& begun : calls) {
    MUSTER_ASSIGN_OR_RETURN(cudaEvent_t event, TakeEvent());
    {
      absl::MutexLock lock(&mutex_);
      begun.work->done_ = event;
    }
    done.push_back(event);
    queued.push_back(begun.call);
    if (const auto caller = static_cast<cudaStream_t>(begun.call.stream); caller != nullptr) {
      MUSTER_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(ready_, caller), "ordering after"));
      MUSTER_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(stream_, ready_, 0), "ordering after"));
    }
  }
  NcclContext context;
  context.handle = &handle_;
  context.rank = rank();
  context.size = size();
  context.stream = stream_;
  context.scratch = scratch_;
  context.scratch_bytes = kScratchBytes;
  MUSTER_RETURN_IF_ERROR(queued.size() == 1 ? QueueCall(context, queued[0])
                                            : QueueMessages(context, queued));
  for (size_t i = 0; i < queued.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done[i], stream_), "marking the end"));
    if (const auto caller = static_cast<cudaStream_t>(queued[i].stream); caller != nullptr) {
      MUSTER_RETURN_IF_ERROR(
          CudaStatus(cudaStreamWaitEvent(caller, done[i], 0), "ordering before"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<NcclGroup::Begun> NcclGroup::Begin(const CollectiveCall& call) {
  MUSTER_RETURN_IF_ERROR(CheckCall(call, rank(), size()));
  if (call.deterministic && Reduces(call.kind) && size() > 1) {
    return absl::InvalidArgumentError(
        "deterministic: NCCL chooses the order of additions by size, topology and version; use the "
        "host transports for runs that repeat bit for bit");
  }
  if (call.tag != 0 || call.root == kAnyRank) {
    return absl::InvalidArgumentError(
        "NCCL's messages have no tags, and come from a rank that is named");
  }
  if (Reduces(call.kind) && IsBitwise(call.reduction)) {
    return absl::InvalidArgumentError(absl::StrCat("NCCL has no reduction ", Name(call.reduction)));
  }
  MUSTER_RETURN_IF_ERROR(CheckDeviceMemory(call));
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
  }
  const LedgerEntry entry = EntryOf(call, rank(), size());
  auto work = std::make_shared<NcclWork>(weak_from_this(), sequence_ + 1,
                                         RealClock().Monotonic() + call.timeout, Describe(entry));
  if (size() > 1) {
    MUSTER_ASSIGN_OR_RETURN(work->ticket_, rounds().Enter(entry));
  }
  recorder_.Begin(++sequence_, call);
  absl::Status ended;
  {
    absl::MutexLock lock(&mutex_);
    // The group may have failed since the ledger took the call; nobody would end it then.
    if (calls_ended_) {
      ended = closed_;
    } else {
      calls_.push_back(work);
    }
  }
  if (!ended.ok()) {
    recorder_.End(sequence_, ended);
    return ended;
  }
  const CollectiveTraffic traffic = TrafficOf(call, rank(), size());
  sent_ += traffic.sent;
  received_ += traffic.received;
  return Begun{.call = call, .work = std::move(work)};
}

std::vector<std::shared_ptr<Work>> NcclGroup::Start(absl::Span<const CollectiveCall> calls) {
  const DeviceScope scope(device());
  std::vector<std::shared_ptr<Work>> works;
  std::vector<Begun> begun;
  for (const CollectiveCall& call : calls) {
    absl::StatusOr<Begun> one = Begin(call);
    if (one.ok()) {
      works.push_back(one->work);
      begun.push_back(*std::move(one));
    } else {
      works.push_back(EndedWork(one.status()));
    }
  }
  if (begun.empty()) return works;
  const absl::Status queued = Queue(begun);
  bool closed = false;
  {
    absl::MutexLock lock(&mutex_);
    closed = !closed_.ok();
    for (const Begun& one : begun) {
      one.work->queued_ = queued.ok();
      if (calls_ended_ && one.work->done_ != nullptr) {
        free_events_.push_back(one.work->done_);
        one.work->done_ = nullptr;
      }
    }
  }
  if (closed) {
    // The caller gets its memory back only when what was queued before NCCL refused is over.
    AwaitDevice(kLeave);
  } else if (!queued.ok()) {
    const NcclWork& first = *begun.front().work;
    Suggest(absl::Status(queued.code(), absl::StrCat("group '", name(), "', call ", first.sequence_,
                                                     ", ", first.description_, ", on rank ", rank(),
                                                     ": ", queued.message())));
  }
  return works;
}

bool NcclGroup::idle() const {
  absl::MutexLock lock(&mutex_);
  return calls_.empty();
}

absl::Status NcclGroup::Drain() {
  while (true) {
    std::shared_ptr<NcclWork> last;
    {
      absl::MutexLock lock(&mutex_);
      if (!closed_.ok()) return closed_;
      if (calls_.empty()) return absl::OkStatus();
      last = calls_.back();
    }
    // A handle that its owner ended before the device did must not end the wait.
    (void)last->Wait(kDeviceLook);
    (void)Poll();
  }
}

void NcclGroup::Suggest(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (!suggested_.ok() || !closed_.ok()) return;
    suggested_ = reason;
    suggested_at_ = RealClock().Monotonic();
  }
  Propose(reason);
}

void NcclGroup::Propose(const absl::Status& reason) {
  if (size() > 1) rounds().Propose(ForPeers(reason));
}

absl::Status NcclGroup::ForPeers(const absl::Status& reason) const {
  if (!IsDeviceFault(reason)) return reason;
  return absl::UnavailableError(
      absl::StrCat("rank ", rank(), " has lost its device: ", reason.message()));
}

absl::Status NcclGroup::LateLocked(absl::Duration now) const {
  for (const auto& call : calls_) {
    if (call->deadline_ > now) continue;
    std::string states;
    if (size() > 1) {
      const bool all = parts_.rounds->Confirmed(call->ticket_);
      states = absl::StrCat(
          all ? "; every rank has made this call, so that a device or the network is stuck: "
              : "; not every rank has made this call: ",
          parts_.rounds->Describe());
    }
    return absl::DeadlineExceededError(absl::StrCat("group '", name(), "', call ", call->sequence_,
                                                    ", ", call->description_,
                                                    ": not done in time on rank ", rank(), states));
  }
  return absl::OkStatus();
}

absl::Status NcclGroup::Poll() {
  const absl::Duration now = RealClock().Monotonic();
  const ncclResult_t nccl_error = handle_.AsyncError();
  std::vector<std::shared_ptr<NcclWork>> done;
  absl::Status suggestion;
  absl::Status suggested;
  bool disagreeing = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return closed_;
    while (!calls_.empty() && calls_.front()->queued_) {
      const auto& call = calls_.front();
      if (size() > 1 && !rounds().Confirmed(call->ticket_)) break;
      const cudaError_t state = cudaEventQuery(call->done_);
      if (state == cudaErrorNotReady) break;
      if (state != cudaSuccess) {
        suggestion = CudaStatus(state, absl::StrCat("group '", name(), "', call ", call->sequence_,
                                                    ", ", call->description_));
        break;
      }
      free_events_.push_back(call->done_);
      call->done_ = nullptr;
      done.push_back(call);
      calls_.pop_front();
    }
    if (suggestion.ok()) suggestion = LateLocked(now);
    if (nccl_error != ncclSuccess) {
      nccl_error_at_ = std::min(nccl_error_at_, now);
      if (suggestion.ok() && now - nccl_error_at_ > kNameFirst) {
        suggestion = NcclStatus(nccl_error, nullptr, absl::StrCat("group '", name(), "'"));
      }
    }
    suggested = suggested_;
    disagreeing = !suggested_.ok() && now - suggested_at_ > kAgree;
  }
  for (const auto& call : done) {
    recorder_.End(call->sequence_, absl::OkStatus());
    call->Finish(absl::OkStatus());
  }
  if (!suggestion.ok()) {
    Suggest(suggestion);
    if (suggested.ok()) suggested = suggestion;
  }
  if (size() == 1) return suggested;
  if (disagreeing) rounds().Fail(ForPeers(suggested));
  const absl::Status agreed = rounds().status();
  // The others see that a rank is gone and meet again; the rank whose device failed cannot.
  return !agreed.ok() && IsDeviceFault(suggested) ? suggested : agreed;
}

void NcclGroup::Close(const absl::Status& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
    closed_ = reason;
  }
  Propose(reason);
}

void NcclGroup::AwaitDevice(absl::Duration grace) {
  const absl::Duration until = RealClock().Monotonic() + grace;
  while (cudaStreamQuery(stream_) == cudaErrorNotReady && RealClock().Monotonic() < until) {
    absl::SleepFor(kDeviceLook);
  }
}

void NcclGroup::EndCalls() {
  std::deque<std::shared_ptr<NcclWork>> calls;
  absl::Status reason;
  {
    absl::MutexLock lock(&mutex_);
    reason = closed_;
    calls_ended_ = true;
    for (const auto& call : calls_) {
      if (call->done_ != nullptr) free_events_.push_back(call->done_);
      call->done_ = nullptr;
    }
    calls.swap(calls_);
  }
  for (const auto& call : calls) {
    recorder_.End(call->sequence_, reason);
    call->Finish(reason);
  }
}

void NcclGroup::Leave() {
  if (size() == 1) return;
  {
    absl::MutexLock lock(&mutex_);
    if (!closed_.ok()) return;
  }
  rounds().Leave(kLeave);
  const DeviceScope scope(device());
  const absl::Duration until = RealClock().Monotonic() + kFinalize;
  const absl::Status flushed = handle_.IssueWhile(
      "finalize",
      [](ncclComm_t& comm) { return comm == nullptr ? ncclSuccess : ncclCommFinalize(comm); },
      [until] {
        return RealClock().Monotonic() < until ? absl::OkStatus()
                                               : absl::DeadlineExceededError("not flushed");
      });
  if (!flushed.ok()) {
    AbortTogether({&handle_});
  } else if (ncclComm_t comm = handle_.Take(); comm != nullptr) {
    // Take waited for the watch, which may have looked a moment ago.
    ncclCommDestroy(comm);
  }
}

}  // namespace muster
