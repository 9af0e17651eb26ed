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

// Sends and receives under way. They keep their order for each pair of ranks and direction alone:
// a message too large for its pipe holds up no other pair, nor what comes the other way. Never
// blocks. Used by one thread at a time.
class PairMessages {
 public:
  explicit PairMessages(Transport& transport);

  // REQUIRES: the call is valid, and a send or receive. `id` names it.
  void Begin(const CollectiveCall& call, uint64_t id);

  bool empty() const { return messages_.empty(); }
  // Forgets all, for good.
  void Clear() { messages_.clear(); }

  // Moves what can be moved, and says whether anything was. FailedPrecondition: mismatch() tells.
  // Other errors are the transport's.
  absl::StatusOr<bool> Step();

  struct Ended {
    uint64_t id = 0;
    CollectiveTraffic traffic;
  };
  // Those that ended in the last Step.
  const std::vector<Ended>& ended() const { return ended_; }

  struct Found {
    uint64_t id = 0;
    int peer = -1;
    CallHeader own;
    CallHeader theirs;
  };
  const Found& mismatch() const { return mismatch_; }

  // Appends what the last Step lacked.
  void AddInterests(std::vector<PipeInterest>& interests) const;

 private:
  struct Message {
    uint64_t id = 0;
    CollectiveCall call;
    // What is sent, or expected.
    CallHeader header;
    CallHeader theirs;
    size_t data_bytes = 0;
    // Of header, data and padding together.
    size_t moved = 0;
    bool waits = false;

    size_t stream_bytes() const { return kHeaderBytes + data_bytes + PaddingAfter(data_bytes); }
  };

  absl::StatusOr<size_t> Send(Message& message);
  absl::StatusOr<size_t> Receive(Message& message);

  Transport& transport_;
  // By peer: messages begun so far.
  std::vector<uint64_t> sends_;
  std::vector<uint64_t> receives_;
  std::vector<Message> messages_;
  std::vector<Ended> ended_;
  // By direction and peer, during a Step: an earlier message is still under way.
  std::vector<bool> held_up_;
  Found mismatch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_
