#include "worker/collectives/transport/mesh/host_transport.h"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/transport/shared_memory/shared_region.h"
#include "worker/collectives/transport/pipes/stream_pipe.h"

namespace muster {
namespace {

// Regions that all ranks map, by rank.
class MappedMemory final : public SymmetricMemory {
 public:
  MappedMemory(std::vector<SharedRegion> regions, size_t bytes)
      : regions_(std::move(regions)), bytes_(bytes) {}

  std::byte* of(int rank) override { return regions_[rank].data(); }
  size_t bytes() const override { return bytes_; }

 private:
  std::vector<SharedRegion> regions_;
  const size_t bytes_;
};

}  // namespace

HostTransport::HostTransport(Doorbell bell, int rank, std::vector<std::string> names,
                             MakeSubgroup make_subgroup)
    : rank_(rank),
      names_(std::move(names)),
      bell_(std::move(bell)),
      health_(bell_, static_cast<int>(names_.size())),
      make_subgroup_(std::move(make_subgroup)),
      pipes_(names_.size()) {}

absl::StatusOr<std::unique_ptr<HostTransport>> HostTransport::Create(Doorbell bell, Options options,
                                                                     Deadline deadline) {
  const int size = static_cast<int>(options.links.size());
  std::unique_ptr<HostTransport> transport(new HostTransport(
      std::move(bell), options.rank, options.names, std::move(options.make_subgroup)));
  std::vector<ControlPeer> peers(size);
  PipeWaiter::Options waiting;
  waiting.pipes.resize(size);
  waiting.names = options.names;
  waiting.local_ranks = options.local_ranks;
  waiting.processors = UsableProcessors();
  for (int peer = 0; peer < size; ++peer) {
    peers[peer].name = options.names[peer];
    if (peer == options.rank) continue;
    PeerLink& link = options.links[peer];
    peers[peer].stream = std::move(link.control);
    if (link.shared != nullptr) {
      auto pipe = std::make_unique<SharedMemoryPipe>(options.names[peer], std::move(*link.shared),
                                                     transport->health_);
      peers[peer].bell = &pipe->peer_bell();
      transport->pipes_[peer] = std::move(pipe);
    } else {
      transport->pipes_[peer] =
          std::make_unique<StreamPipe>(std::move(link.data), transport->health_);
      transport->all_shared_ = false;
    }
    waiting.pipes[peer] = transport->pipes_[peer].get();
  }
  transport->waiter_ =
      std::make_unique<PipeWaiter>(std::move(waiting), transport->bell_, transport->health_);
  MUSTER_ASSIGN_OR_RETURN(
      transport->control_,
      ControlPlane::Create(options.rank, std::move(peers), transport->bell_, transport->health_));
  MUSTER_RETURN_IF_ERROR(transport->Agree(deadline));
  return transport;
}

absl::Status HostTransport::Agree(Deadline deadline) {
  // The record has 64 bytes, so that what follows is aligned in the stream.
  std::byte record[64] = {static_cast<std::byte>(all_shared_ ? 1 : 0)};
  std::vector<size_t> received(size());
  std::vector<PipeInterest> missing;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    // The pipe is empty, so that it takes the record in one Write.
    MUSTER_RETURN_IF_ERROR(pipes_[peer]->Write(record).status());
    MUSTER_RETURN_IF_ERROR(pipes_[peer]->Flush());
    missing.push_back({peer, /*readable=*/true, /*writable=*/false});
  }
  while (true) {
    const uint64_t ticket = Ticket();
    for (auto interest = missing.begin(); interest != missing.end();) {
      size_t& got = received[interest->peer];
      std::byte told[sizeof(record)];
      MUSTER_ASSIGN_OR_RETURN(const size_t more,
                              pipes_[interest->peer]->Read(absl::MakeSpan(told).subspan(got)));
      if (got == 0 && more > 0 && told[0] == std::byte{0}) all_shared_ = false;
      got += more;
      interest = got == sizeof(record) ? missing.erase(interest) : interest + 1;
    }
    if (missing.empty()) return health();
    MUSTER_RETURN_IF_ERROR(deadline.interrupted());
    if (deadline.passed()) {
      return absl::UnavailableError(
          absl::StrCat(names_[missing[0].peer], " has not met all ranks of the group in time"));
    }
    Wait(ticket, missing, deadline.nap());
    MUSTER_RETURN_IF_ERROR(health());
  }
}

HostTransport::~HostTransport() = default;

void HostTransport::Abort(const absl::Status& reason) {
  health_.Fail(reason);
  control_->Abort(reason);
}

void HostTransport::Publish(const CallState& state) {
  bell_.NoteProcessor(sched_getcpu());
  bell_.Publish(state);
}

absl::StatusOr<std::unique_ptr<SymmetricMemory>> HostTransport::Allocate(size_t bytes,
                                                                         absl::Duration timeout) {
  MUSTER_RETURN_IF_ERROR(health());
  const uint64_t id = ++allocations_;
  if (!all_shared_) {
    return absl::UnimplementedError("not all ranks of the group share memory");
  }
  const Deadline deadline = Deadline::After(timeout);
  // No memory of 0 bytes can be mapped.
  const size_t mapped = std::max<size_t>(bytes, 1);
  absl::StatusOr<SharedRegion> own = SharedRegion::Create(mapped);
  if (own.ok()) own->UseHugePages(0, mapped);
  std::vector<SharedRegion> regions(size());
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    // A rank without memory tells the others, so that they need not wait for it.
    Descriptor copy(own.ok() ? fcntl(own->descriptor(), F_DUPFD_CLOEXEC, 0) : -1);
    const size_t shared = copy.valid() ? mapped : 0;
    control_->SendMemory(peer, id, shared, std::move(copy));
  }
  absl::Status failure = own.status();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    MUSTER_ASSIGN_OR_RETURN(ControlPlane::Memory memory, control_->TakeMemory(peer, id, deadline));
    if (memory.bytes != mapped || !memory.descriptor.valid()) {
      failure = memory.bytes == 0
                    ? absl::ResourceExhaustedError(absl::StrCat("rank ", peer, " has no ", bytes,
                                                                " bytes of memory to share"))
                    : absl::FailedPreconditionError(absl::StrCat(
                          names_[peer], " shares ", memory.bytes, " bytes, expected ", mapped));
      continue;
    }
    absl::StatusOr<SharedRegion> region = SharedRegion::Map(std::move(memory.descriptor), mapped);
    if (!region.ok()) {
      failure = region.status();
      continue;
    }
    region->CloseDescriptor();
    regions[peer] = *std::move(region);
  }
  MUSTER_RETURN_IF_ERROR(failure);
  own->CloseDescriptor();
  regions[rank_] = *std::move(own);
  return std::make_unique<MappedMemory>(std::move(regions), bytes);
}

std::string HostTransport::Description(int peer) const {
  return peer == rank_ ? "" : pipes_[peer]->description();
}

}  // namespace muster
