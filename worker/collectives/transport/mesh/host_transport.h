#ifndef MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_HOST_TRANSPORT_H_
#define MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_HOST_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/transport/byte_stream.h"
#include "common/transport/deadline.h"
#include "worker/collectives/transport/mesh/control_plane.h"
#include "worker/collectives/transport/mesh/control_stream.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/group_health.h"
#include "worker/collectives/transport/pipes/host_pipe.h"
#include "worker/collectives/transport/pipes/pipe_waiter.h"
#include "worker/collectives/transport/pipes/shared_memory_pipe.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// The link of a pair after its handshake: a control connection, and either shared memory or
// connections of its own for the data.
struct PeerLink {
  std::unique_ptr<ControlStream> control;
  std::unique_ptr<SharedPair> shared;
  std::unique_ptr<ByteStream> data;
};

// A full mesh: every pair of ranks has a control connection, and moves data through two rings in
// shared memory or over connections of its own. One thread serves the control connections.
class HostTransport final : public Transport {
 public:
  using MakeSubgroup = std::function<absl::StatusOr<std::unique_ptr<Transport>>(
      absl::Span<const int> ranks, uint64_t id, Deadline deadline)>;

  struct Options {
    int rank = 0;
    // Links by rank; empty for this rank.
    std::vector<PeerLink> links;
    // Names of the ranks in errors, such as "rank 2 (pid 1234)".
    std::vector<std::string> names;
    // Number of ranks on this machine, as far as is known.
    int local_ranks = 1;
    // Makes the transport of a sub-group.
    MakeSubgroup make_subgroup;
  };

  // Returns once all ranks have met all others. `bell` was handed to the peers. Unavailable: a rank
  // did not meet them in time. Also returns the status of the deadline's interrupt.
  static absl::StatusOr<std::unique_ptr<HostTransport>> Create(Doorbell bell, Options options,
                                                               Deadline deadline);
  // Says goodbye to all peers.
  ~HostTransport() override;

  // Returns true if every pair of the group shares memory; the same on all ranks.
  bool all_shared() const { return all_shared_; }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(pipes_.size()); }
  Pipe& pipe(int peer) override { return *pipes_[peer]; }
  uint64_t Ticket() override { return bell_.word(); }
  void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests,
            absl::Duration timeout) override {
    waiter_->Wait(ticket, interests, timeout);
  }
  void Wake() override { waiter_->Wake(); }
  absl::Status health() const override { return health_.status(); }
  void Abort(const absl::Status& reason) override;
  void Publish(const CallState& state) override;
  std::vector<RankState> Survey(absl::Duration grace) override { return control_->Survey(grace); }
  absl::StatusOr<std::unique_ptr<SymmetricMemory>> Allocate(size_t bytes,
                                                            absl::Duration timeout) override;
  absl::StatusOr<std::unique_ptr<Transport>> Subgroup(absl::Span<const int> ranks, uint64_t id,
                                                      absl::Duration timeout) override {
    // A failure of this group also ends the meeting.
    return make_subgroup_(ranks, id, Deadline::After(timeout, &health_));
  }
  std::string Description(int peer) const override;

 private:
  HostTransport(Doorbell bell, int rank, std::vector<std::string> names,
                MakeSubgroup make_subgroup);
  // Learns from all ranks whether they share memory with all others.
  absl::Status Agree(Deadline deadline);

  const int rank_;
  const std::vector<std::string> names_;
  Doorbell bell_;
  GroupHealth health_;
  const MakeSubgroup make_subgroup_;
  // Const after Create.
  std::vector<std::unique_ptr<HostPipe>> pipes_;
  bool all_shared_ = true;
  std::unique_ptr<PipeWaiter> waiter_;
  // The owner's thread only.
  uint64_t allocations_ = 0;
  // Destroyed first, because it reads the pipes' pages.
  std::unique_ptr<ControlPlane> control_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_TRANSPORT_MESH_HOST_TRANSPORT_H_
