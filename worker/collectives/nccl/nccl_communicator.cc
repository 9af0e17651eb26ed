#include "worker/collectives/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "worker/collectives/nccl/device_status.h"
#include "worker/collectives/nccl/nccl_handle.h"

namespace muster {
namespace {

// The message of rank 0 to the others: an id, or that there is none.
struct UniqueId {
  ncclUniqueId id = {};
  uint32_t made = 0;
};

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

absl::StatusOr<ncclUniqueId> ShareUniqueId(Communicator& host, const NcclGroupOptions& options) {
  UniqueId id;
  absl::Status made;
  if (host.rank() == 0) {
    const ncclResult_t result = ncclGetUniqueId(&id.id);
    made = NcclStatus(result, nullptr, "making an id for the group");
    id.made = made.ok();
  }
  CollectiveCall call;
  call.kind = Collective::kBroadcast;
  call.dtype = DType::kUint8;
  call.in = &id;
  call.out = &id;
  call.count = sizeof(id);
  call.timeout = options.timeout;
  call.label = "nccl id";
  MUSTER_RETURN_IF_ERROR(host.Run(call));
  MUSTER_RETURN_IF_ERROR(made);
  if (id.made == 0) {
    return absl::UnavailableError(
        absl::StrCat("group '", options.name, "': rank 0 could not make a NCCL id; see its log"));
  }
  return id.id;
}

// Device memory that NCCL knows, so that it is reached without a copy.
class NcclBuffer final : public CollectiveBuffer {
 public:
  NcclBuffer(std::shared_ptr<NcclGroup> group, void* data, size_t bytes, void* registration)
      : group_(std::move(group)), data_(data), bytes_(bytes), registration_(registration) {}

  ~NcclBuffer() override {
    const DeviceScope scope(group_->device());
    if (registration_ != nullptr) {
      // Fails if the group has ended, and its registrations with it.
      (void)group_->handle().Issue("deregister", [this](ncclComm_t& comm) {
        return ncclCommDeregister(comm, registration_);
      });
    }
    if (group_->size() > 1) {
      ncclMemFree(data_);
    } else {
      cudaFree(data_);
    }
  }

  absl::Span<std::byte> bytes() override { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  const std::shared_ptr<NcclGroup> group_;
  void* const data_;
  const size_t bytes_;
  void* const registration_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclWatch> watch, std::shared_ptr<NcclGroup> group,
                   NcclGroupOptions options)
      : watch_(std::move(watch)), group_(std::move(group)), options_(std::move(options)) {}

  ~NcclCommunicator() override {
    if (!group_->idle()) {
      group_->Suggest(
          absl::AbortedError(absl::StrCat("group '", group_->name(), "': rank ", group_->rank(),
                                          " left with calls still under way")));
      (void)group_->Drain();
    }
    group_->Leave();
    watch_->Remove(*group_);
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  absl::Status Run(const CollectiveCall& call) override {
    return Start(call)->Wait(absl::InfiniteDuration());
  }

  std::shared_ptr<Work> Start(const CollectiveCall& call) override {
    // Comes first: the call's first moments may already need the deadline thread.
    watch_->Wake();
    return group_->Start({&call, 1}).front();
  }

  std::vector<std::shared_ptr<Work>> StartMessages(
      absl::Span<const CollectiveCall> messages) override {
    watch_->Wake();
    return group_->Start(messages);
  }

  absl::StatusOr<std::unique_ptr<CollectiveBuffer>> Allocate(size_t bytes) override {
    // Waits for the calls under way: taking memory can wait for the whole device.
    MUSTER_RETURN_IF_ERROR(group_->Drain());
    const DeviceScope scope(group_->device());
    void* data = nullptr;
    void* registration = nullptr;
    const size_t room = std::max<size_t>(bytes, 1);
    if (group_->size() == 1) {
      MUSTER_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&data, room), "allocating device memory"));
    } else {
      LedgerEntry entry;
      entry.kind = kLedgerAllocate;
      entry.count = bytes;
      MUSTER_ASSIGN_OR_RETURN(const CallLedger::Ticket ticket, group_->rounds().Enter(entry));
      if (absl::Status same = group_->rounds().AwaitConfirmed(ticket, options_.timeout);
          !same.ok()) {
        group_->Suggest(same);
        return same;
      }
      const absl::Status allocated = NcclStatus(
          ncclMemAlloc(&data, room), nullptr,
          absl::StrCat("rank ", rank(), ": allocating ", bytes, " bytes of device memory"));
      if (!allocated.ok()) {
        // The others have theirs, and would wait for a call that never comes.
        group_->Suggest(allocated);
        return allocated;
      }
      // Some networks take no registration; the memory serves all the same, by a copy.
      const absl::Status registered = group_->handle().Issue("register", [&](ncclComm_t& comm) {
        return ncclCommRegister(comm, data, room, &registration);
      });
      if (!registered.ok()) registration = nullptr;
    }
    auto buffer = std::make_unique<NcclBuffer>(group_, data, bytes, registration);
    MUSTER_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(data, 0, room, group_->stream()), "zeroing device memory"));
    MUSTER_RETURN_IF_ERROR(
        CudaStatus(cudaStreamSynchronize(group_->stream()), "zeroing device memory"));
    return buffer;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key) override;

  void Abort(const std::string& reason) override {
    group_->Suggest(absl::AbortedError(
        absl::StrCat("group '", group_->name(), "': rank ", group_->rank(), " aborted: ", reason)));
    watch_->Wake();
  }

  const FlightRecorder& recorder() const override { return group_->recorder(); }
  CollectiveTraffic traffic() const override { return group_->traffic(); }

 private:
  const std::shared_ptr<NcclWatch> watch_;
  const std::shared_ptr<NcclGroup> group_;
  const NcclGroupOptions options_;
};

// Makes the group's resources on the device, its NCCL communicator by `connect`, then the watch.
// `host` is the group's alone; null in a group of one.
absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(
    std::shared_ptr<NcclWatch> watch, std::unique_ptr<Communicator> host,
    const NcclGroupOptions& options,
    absl::FunctionRef<ncclResult_t(ncclComm_t&, ncclConfig_t*)> connect) {
  NcclGroup::Parts parts;
  parts.name = options.name;
  parts.device = options.device;
  if (host != nullptr) {
    parts.rank = host->rank();
    parts.size = host->size();
    parts.rounds = std::make_unique<LedgerRounds>(std::move(host), options.name, options.names);
  }
  LedgerRounds* const rounds = parts.rounds.get();
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<NcclGroup> group, NcclGroup::Create(std::move(parts)));
  if (rounds != nullptr) {
    const DeviceScope scope(options.device);
    const absl::Duration until = RealClock().Monotonic() + options.timeout;
    absl::Status connected = group->handle().IssueWhile(
        absl::StrCat("connecting group '", options.name, "'"),
        [&](ncclComm_t& comm) {
          ncclConfig_t config = NonBlocking();
          return connect(comm, &config);
        },
        [&] {
          MUSTER_RETURN_IF_ERROR(rounds->status());
          if (RealClock().Monotonic() < until) return absl::OkStatus();
          return absl::DeadlineExceededError(absl::StrCat("group '", options.name,
                                                          "': NCCL did not connect within ",
                                                          absl::FormatDuration(options.timeout)));
        });
    if (connected.ok()) connected = watch->Add(group);
    if (!connected.ok()) {
      group->Propose(connected);
      AbortTogether({&group->handle()});
      return connected;
    }
  } else {
    MUSTER_RETURN_IF_ERROR(watch->Add(group));
  }
  return std::make_unique<NcclCommunicator>(std::move(watch), std::move(group), options);
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(int colour, int key) {
  // NCCL splits a communicator only when nothing is under way on it.
  MUSTER_RETURN_IF_ERROR(group_->Drain());
  NcclGroupOptions options = options_;
  options.name = absl::StrCat(options_.name, "/", colour);
  options.names.clear();
  const auto no_connection = [](ncclComm_t&, ncclConfig_t*) { return ncclSuccess; };
  if (size() == 1) {
    if (colour < 0) return nullptr;
    return MakeGroup(watch_, nullptr, options, no_connection);
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> host,
                          group_->rounds().Split(colour, key, options_.timeout));
  const bool connects = host != nullptr && host->size() > 1;
  const int order = host == nullptr ? 0 : host->rank();
  const absl::Duration until = RealClock().Monotonic() + options_.timeout;
  absl::Status split;
  // Every rank takes part, also a rank that joins no group or a group of one.
  const auto connect = [&](ncclComm_t& child, ncclConfig_t* config) {
    const absl::StatusOr<ncclComm_t> made = group_->handle().SplitWhile(
        "split",
        [&](ncclComm_t comm, ncclComm_t* place) {
          return ncclCommSplit(comm, connects ? colour : NCCL_SPLIT_NOCOLOR, order, place, config);
        },
        [&] {
          if (RealClock().Monotonic() < until) return group_->rounds().status();
          return absl::DeadlineExceededError(absl::StrCat("group '", options_.name,
                                                          "': NCCL did not split within ",
                                                          absl::FormatDuration(options_.timeout)));
        });
    split = made.status();
    if (!split.ok()) return ncclInternalError;
    child = *made;
    // NCCL is asked again and again until the child is ready.
    return ncclInProgress;
  };
  absl::StatusOr<std::unique_ptr<Communicator>> part = nullptr;
  if (connects) {
    part = MakeGroup(watch_, std::move(host), options, connect);
  } else {
    const DeviceScope scope(group_->device());
    ncclConfig_t config = NonBlocking();
    ncclComm_t none = nullptr;
    connect(none, &config);
    if (split.ok() && host != nullptr) part = MakeGroup(watch_, nullptr, options, no_connection);
  }
  if (split.ok() && part.ok()) return part;
  // If the process's groups have failed meanwhile, that is the reason; else the others must not
  // wait for this rank's part.
  MUSTER_RETURN_IF_ERROR(watch_->status());
  const absl::Status failed = split.ok() ? part.status() : split;
  group_->Suggest(failed);
  return failed;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> MakeNcclCommunicator(
    std::shared_ptr<NcclWatch> watch, Communicator& host, const NcclGroupOptions& options) {
  MUSTER_RETURN_IF_ERROR(watch->status());
  if (host.size() == 1) {
    return MakeGroup(std::move(watch), nullptr, options,
                     [](ncclComm_t&, ncclConfig_t*) { return ncclSuccess; });
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> own, host.Split(0, host.rank()));
  MUSTER_ASSIGN_OR_RETURN(const ncclUniqueId id, ShareUniqueId(*own, options));
  const int rank = own->rank();
  const int size = own->size();
  return MakeGroup(std::move(watch), std::move(own), options,
                   [&](ncclComm_t& comm, ncclConfig_t* config) {
                     return ncclCommInitRankConfig(&comm, size, id, rank, config);
                   });
}

}  // namespace muster
