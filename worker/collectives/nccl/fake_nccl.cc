#include "worker/collectives/nccl/fake_nccl.h"

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/nccl/fake_cuda.h"
#include "worker/collectives/reduce/reduce_kernels.h"

namespace muster {
namespace {

struct Part {
  Collective kind = Collective::kBarrier;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
};

bool SameCall(const Part& a, const Part& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root &&
         a.count == b.count;
}

struct Transfer {
  const void* from = nullptr;
  void* to = nullptr;
  size_t bytes = 0;
  bool done = false;
};

struct SplitPart {
  int colour = 0;
  int key = 0;
  ncclComm_t parent = nullptr;
};

// The state that the ranks of a communicator share.
struct Hub {
  explicit Hub(int size) : size(size) {}
  struct Meeting {
    std::vector<Part> parts;
    int arrived = 0;
    int left = 0;
    bool done = false;
    bool broken = false;
  };
  struct Pair {
    std::deque<std::shared_ptr<Transfer>> sends;
    std::deque<std::shared_ptr<Transfer>> receives;
  };
  const int size;
  absl::Mutex mutex;
  int joined ABSL_GUARDED_BY(mutex) = 0;
  std::map<uint64_t, Meeting> meetings ABSL_GUARDED_BY(mutex);
  std::map<std::pair<int, int>, Pair> pairs ABSL_GUARDED_BY(mutex);
  std::map<uint64_t, std::map<int, SplitPart>> splits ABSL_GUARDED_BY(mutex);
  uint64_t splits_done ABSL_GUARDED_BY(mutex) = 0;
};

DType TypeOf(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DType::kF32;
    case ncclFloat64:
      return DType::kF64;
    case ncclInt32:
      return DType::kInt32;
    case ncclInt64:
      return DType::kInt64;
    case ncclUint8:
      return DType::kUint8;
    default:
      // Half precision is never left to NCCL to reduce.
      std::abort();
  }
}

Reduction ReductionOf(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return Reduction::kSum;
    case ncclProd:
      return Reduction::kProd;
    case ncclMax:
      return Reduction::kMax;
    case ncclMin:
      return Reduction::kMin;
    default:
      std::abort();
  }
}

}  // namespace
}  // namespace muster

struct ncclComm {
  std::shared_ptr<muster::Hub> hub;
  int rank = 0;
  // Guarded by the hub.
  bool aborted = false;
  ncclResult_t failed = ncclSuccess;
  // The child of a split under way, and the place where it is to be stored.
  ncclComm_t child = nullptr;
  ncclComm_t* place = nullptr;
  std::atomic<bool> dead{false};
  std::atomic<bool> entered{false};
  // Number of times that GetAsyncError must be asked until it says that NCCL is done.
  std::atomic<int> looks{0};
  uint64_t calls = 0;
  uint64_t splits = 0;
};

namespace muster {
namespace {

absl::Mutex registry_mutex(absl::kConstInit);
struct Registry {
  uint64_t ids = 0;
  std::map<uint64_t, std::shared_ptr<Hub>> hubs;
  // All that were ever made, so that a use after the end is noticed.
  std::vector<std::unique_ptr<ncclComm>> comms;
  FakeNcclCounts counts;
  FakeNcclBehaviour behaviour;
};
Registry& TheRegistry() ABSL_EXCLUSIVE_LOCKS_REQUIRED(registry_mutex) {
  static auto* const registry = new Registry();
  return *registry;
}

thread_local int group_depth = 0;
thread_local bool group_aborts = false;
struct QueuedTransfer {
  ncclComm_t comm;
  cudaStream_t stream;
  int peer;
  bool sends;
  std::shared_ptr<Transfer> transfer;
};
thread_local std::vector<QueuedTransfer> group_transfers;

ncclComm_t NewComm(std::shared_ptr<Hub> hub, int rank) {
  auto comm = std::make_unique<ncclComm>();
  comm->hub = std::move(hub);
  comm->rank = rank;
  absl::MutexLock lock(&registry_mutex);
  ++TheRegistry().counts.made;
  TheRegistry().comms.push_back(std::move(comm));
  return TheRegistry().comms.back().get();
}

void Count(int FakeNcclCounts::*what) {
  absl::MutexLock lock(&registry_mutex);
  ++(TheRegistry().counts.*what);
}

FakeNcclBehaviour Behaviour() {
  absl::MutexLock lock(&registry_mutex);
  return TheRegistry().behaviour;
}

void MustLive(ncclComm_t comm) {
  if (comm->dead) std::abort();
}

// A thread's stay inside NCCL with a communicator.
class Entry {
 public:
  explicit Entry(ncclComm_t comm) : comm_(comm) {
    MustLive(comm);
    if (comm->entered.exchange(true)) std::abort();
  }
  ~Entry() { comm_->entered = false; }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  const ncclComm_t comm_;
};

bool Ready(ncclComm_t comm) { return comm->looks == 0; }

ncclResult_t Taken(ncclComm_t comm) {
  comm->looks = 3;
  return ncclInProgress;
}

// "Attempt to use communicator before the previous operation returned ncclSuccess": its state, too.
ncclResult_t Refuse(ncclComm_t comm) {
  absl::MutexLock lock(&comm->hub->mutex);
  comm->failed = ncclInvalidArgument;
  return ncclInvalidArgument;
}

// REQUIRES: the hub's mutex is held.
void StoreChild(ncclComm_t comm) {
  if (comm->place != nullptr) __atomic_store_n(comm->place, comm->child, __ATOMIC_RELEASE);
  comm->place = nullptr;
  comm->child = nullptr;
}

// A group in which communicators end goes to their devices, and back to the thread's.
void ComeBackToThreadsDevice() {
  int device = 0;
  cudaGetDevice(&device);
  cudaSetDevice(device);
}

void CarryOut(const std::vector<Part>& parts) {
  const Part& first = parts[0];
  const int size = static_cast<int>(parts.size());
  const size_t element = SizeOf(TypeOf(first.type));
  if (first.kind == Collective::kBroadcast) {
    const std::vector<std::byte> data(
        static_cast<const std::byte*>(parts[first.root].in),
        static_cast<const std::byte*>(parts[first.root].in) + first.count);
    for (const Part& part : parts) std::memcpy(part.out, data.data(), data.size());
    return;
  }
  if (first.kind == Collective::kAllGather) {
    for (int r = 0; r < size; ++r) {
      for (const Part& part : parts) {
        std::memmove(static_cast<std::byte*>(part.out) + r * first.count, parts[r].in, first.count);
      }
    }
    return;
  }
  const bool scatters = first.kind == Collective::kReduceScatter;
  const size_t total = first.count * (scatters ? size : 1);
  std::vector<std::byte> result(total * element);
  std::vector<const void*> inputs;
  for (const Part& part : parts) inputs.push_back(part.in);
  ReduceOp op;
  op.dtype = TypeOf(first.type);
  op.reduction = ReductionOf(first.op);
  ReduceInto(op, inputs, total, result.data());
  for (int r = 0; r < size; ++r) {
    if (first.kind == Collective::kReduce && r != first.root) continue;
    std::memcpy(parts[r].out, result.data() + (scatters ? r * first.count * element : 0),
                first.count * element);
  }
}

// Runs on the stream. Waits for all ranks, for ever if they differ, or until the abort.
void Meet(ncclComm_t comm, uint64_t number, const Part& part) {
  Hub& hub = *comm->hub;
  absl::MutexLock lock(&hub.mutex);
  Hub::Meeting& meeting = hub.meetings[number];
  meeting.parts.resize(hub.size);
  meeting.parts[comm->rank] = part;
  if (!comm->aborted && ++meeting.arrived == hub.size && !meeting.broken) {
    bool same = true;
    for (const Part& other : meeting.parts) same = same && SameCall(other, part);
    if (same) CarryOut(meeting.parts);
    meeting.done = same;
  }
  const auto ended = [&] { return meeting.done || comm->aborted; };
  hub.mutex.Await(absl::Condition(&ended));
  // Nobody may touch this rank's memory from here on.
  meeting.broken = meeting.broken || !meeting.done;
  if (++meeting.left == hub.size) hub.meetings.erase(number);
}

ncclResult_t HangUntilAborted(ncclComm_t comm) {
  absl::MutexLock lock(&comm->hub->mutex);
  comm->hub->mutex.Await(absl::Condition(&comm->aborted));
  return ncclInternalError;
}

ncclResult_t Collect(ncclComm_t comm, cudaStream_t stream, const Part& part) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Entry entry(comm);
  if (!Ready(comm)) return Refuse(comm);
  if (Behaviour().calls_hang) return HangUntilAborted(comm);
  const uint64_t number = comm->calls++;
  FakeEnqueue(stream, [comm, number, part] { Meet(comm, number, part); });
  return Taken(comm);
}

void Move(ncclComm_t comm, const std::vector<QueuedTransfer>& transfers) {
  Hub& hub = *comm->hub;
  absl::MutexLock lock(&hub.mutex);
  if (comm->aborted) return;
  for (const QueuedTransfer& queued : transfers) {
    const int from = queued.sends ? comm->rank : queued.peer;
    const int to = queued.sends ? queued.peer : comm->rank;
    Hub::Pair& pair = hub.pairs[{from, to}];
    (queued.sends ? pair.sends : pair.receives).push_back(queued.transfer);
    while (!pair.sends.empty() && !pair.receives.empty() &&
           pair.sends.front()->bytes == pair.receives.front()->bytes) {
      std::memcpy(pair.receives.front()->to, pair.sends.front()->from, pair.sends.front()->bytes);
      pair.sends.front()->done = pair.receives.front()->done = true;
      pair.sends.pop_front();
      pair.receives.pop_front();
    }
  }
  const auto ended = [&] {
    if (comm->aborted) return true;
    for (const QueuedTransfer& queued : transfers) {
      if (!queued.transfer->done) return false;
    }
    return true;
  };
  hub.mutex.Await(absl::Condition(&ended));
  // After an abort nothing of this group moves any more.
  if (comm->aborted) hub.pairs.clear();
}

ncclResult_t EndGroup() {
  std::map<std::pair<ncclComm_t, cudaStream_t>, std::vector<QueuedTransfer>> by_comm;
  for (QueuedTransfer& queued : group_transfers) {
    by_comm[{queued.comm, queued.stream}].push_back(std::move(queued));
  }
  group_transfers.clear();
  ncclResult_t result = ncclSuccess;
  for (auto& [place, transfers] : by_comm) {
    ncclComm_t comm = place.first;
    const Entry entry(comm);
    FakeEnqueue(place.second, [comm, moved = std::move(transfers)] { Move(comm, moved); });
    result = Taken(comm);
  }
  return result;
}

ncclResult_t AddTransfer(ncclComm_t comm, cudaStream_t stream, int peer, bool sends,
                         Transfer transfer) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const Entry entry(comm);
    if (!Ready(comm)) return Refuse(comm);
  }
  group_transfers.push_back({comm, stream, peer, sends, std::make_shared<Transfer>(transfer)});
  return group_depth == 0 ? EndGroup() : ncclSuccess;
}

void FinishSplit(Hub& hub, const std::map<int, SplitPart>& parts)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(hub.mutex) {
  std::map<int, std::map<std::pair<int, int>, int>> colours;
  for (const auto& [rank, part] : parts) {
    // Like NCCL, which waits for the rank that is gone.
    if (part.parent->aborted) return;
    if (part.colour >= 0) colours[part.colour][{part.key, rank}] = rank;
  }
  for (const auto& [colour, members] : colours) {
    auto child = std::make_shared<Hub>(static_cast<int>(members.size()));
    int rank = 0;
    for (const auto& [order, old] : members) {
      ncclComm_t comm = parts.at(old).parent->child;
      comm->hub = child;
      comm->rank = rank++;
    }
    absl::MutexLock lock(&child->mutex);
    child->joined = child->size;
  }
  ++hub.splits_done;
}

}  // namespace

FakeNcclCounts GetFakeNcclCounts() {
  absl::MutexLock lock(&registry_mutex);
  return TheRegistry().counts;
}

void SetFakeNcclBehaviour(const FakeNcclBehaviour& behaviour) {
  absl::MutexLock lock(&registry_mutex);
  TheRegistry().behaviour = behaviour;
}

}  // namespace muster

using namespace muster;

extern "C" {

const char* ncclGetErrorString(ncclResult_t result) { return "an error of the stand-in for NCCL"; }
const char* ncclGetLastError(ncclComm_t comm) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  absl::MutexLock lock(&registry_mutex);
  const uint64_t number = ++TheRegistry().ids;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) std::abort();
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  std::shared_ptr<Hub> hub;
  {
    absl::MutexLock lock(&registry_mutex);
    auto& place = TheRegistry().hubs[number];
    if (place == nullptr) place = std::make_shared<Hub>(size);
    hub = place;
  }
  *comm = NewComm(hub, rank);
  absl::MutexLock lock(&hub->mutex);
  ++hub->joined;
  return Taken(*comm);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t* child,
                           ncclConfig_t* config) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Entry entry(comm);
  if (config->blocking != 0) std::abort();
  if (!Ready(comm)) return Refuse(comm);
  Count(&FakeNcclCounts::splits);
  *child = nullptr;
  const bool hangs = Behaviour().splits_hang;
  (void)Taken(comm);
  absl::MutexLock lock(&comm->hub->mutex);
  comm->place = child;
  // The child belongs to nobody yet.
  if (colour >= 0) comm->child = NewComm(std::make_shared<Hub>(1), 0);
  auto& parts = comm->hub->splits[comm->splits++];
  parts[comm->rank] = {colour, key, comm};
  if (!hangs && static_cast<int>(parts.size()) == comm->hub->size) FinishSplit(*comm->hub, parts);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Entry entry(comm);
  Count(&FakeNcclCounts::queries);
  absl::SleepFor(Behaviour().query_time);
  Count(&FakeNcclCounts::queries_done);
  absl::MutexLock lock(&comm->hub->mutex);
  *error = comm->failed;
  if (comm->failed != ncclSuccess) return ncclSuccess;
  const bool waits = comm->hub->joined < comm->hub->size || comm->hub->splits_done < comm->splits;
  if (!waits && comm->looks > 0) --comm->looks;
  if (waits || comm->looks > 0) {
    *error = ncclInProgress;
  } else {
    StoreChild(comm);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  const Entry entry(comm);
  return Ready(comm) ? Taken(comm) : Refuse(comm);
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  const Entry entry(comm);
  if (!Ready(comm)) return Refuse(comm);
  comm->dead = true;
  Count(&FakeNcclCounts::ended);
  ComeBackToThreadsDevice();
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  MustLive(comm);
  comm->dead = true;
  group_aborts = true;
  Count(&FakeNcclCounts::ended);
  Count(&FakeNcclCounts::aborts);
  ComeBackToThreadsDevice();
  absl::MutexLock lock(&comm->hub->mutex);
  comm->aborted = true;
  StoreChild(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (group_depth++ == 0) group_aborts = false;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--group_depth > 0) return ncclSuccess;
  if (group_aborts) {
    absl::MutexLock lock(&registry_mutex);
    ++TheRegistry().counts.aborting_groups;
  }
  group_aborts = false;
  return EndGroup();
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, {Collective::kAllReduce, type, op, 0, in, out, count});
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, {Collective::kReduce, type, op, root, in, out, count});
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, {Collective::kReduceScatter, type, op, 0, in, out, count});
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, {Collective::kAllGather, type, ncclSum, 0, in, out, count});
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return Collect(comm, stream, {Collective::kBroadcast, type, ncclSum, root, in, out, count});
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return AddTransfer(comm, stream, peer, true, {in, nullptr, count});
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return AddTransfer(comm, stream, peer, false, {nullptr, out, count});
}

ncclResult_t ncclMemAlloc(void** data, size_t bytes) {
  return cudaMalloc(data, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* data) {
  cudaFree(data);
  return ncclSuccess;
}
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* data, size_t bytes, void** handle) {
  const Entry entry(comm);
  *handle = data;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  const Entry entry(comm);
  return ncclSuccess;
}

}  // extern "C"
