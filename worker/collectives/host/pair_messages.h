#ifndef MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/host/call_header.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// The sends and receives under way. Messages keep their order only per pair of ranks and direction:
// a message too large for its pipe holds up neither other pairs nor the other direction. Never
// blocks. Used by one thread at a time.
class PairMessages {
 public:
  explicit PairMessages(Transport& transport);

  // Begins a message named `id`. REQUIRES: the call is valid, and a send or receive.
  void Begin(const CollectiveCall& call, uint64_t id);

  bool empty() const { return messages_.empty(); }
  // Drops all messages.
  void Clear() { messages_.clear(); }

  // Moves what can be moved, and returns true if anything was. FailedPrecondition: see mismatch().
  // Other errors are the transport's.
  absl::StatusOr<bool> Step();

  struct Ended {
    uint64_t id = 0;
    CollectiveTraffic traffic;
  };
  // Returns the messages that ended in the last Step.
  const std::vector<Ended>& ended() const { return ended_; }

  struct Found {
    uint64_t id = 0;
    int peer = -1;
    CallHeader own;
    CallHeader theirs;
  };
  const Found& mismatch() const { return mismatch_; }

  // Appends the pipes for which the last Step had to wait.
  void AddInterests(std::vector<PipeInterest>& interests) const;

 private:
  struct Message {
    uint64_t id = 0;
    CollectiveCall call;
    // The header that is sent, or expected.
    CallHeader header;
    CallHeader theirs;
    size_t data_bytes = 0;
    // Bytes moved of header, data and padding.
    size_t moved = 0;
    bool waits = false;

    size_t stream_bytes() const { return kHeaderBytes + data_bytes + PaddingAfter(data_bytes); }
  };

  absl::StatusOr<size_t> Send(Message& message);
  absl::StatusOr<size_t> Receive(Message& message);

  Transport& transport_;
  // Messages begun so far, by peer.
  std::vector<uint64_t> sends_;
  std::vector<uint64_t> receives_;
  std::vector<Message> messages_;
  std::vector<Ended> ended_;
  // True for a direction and peer, during a Step, if an earlier message is still under way.
  std::vector<bool> held_up_;
  Found mismatch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_
