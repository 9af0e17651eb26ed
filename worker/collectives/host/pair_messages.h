#ifndef MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/host/call_header.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// The sends and receives under way. Messages keep their order only per pair of ranks, direction and
// tag: a message too large for its pipe holds up neither other pairs nor the other direction. Never
// blocks. Used by one thread at a time.
//
// A pipe brings a rank's messages in the order in which they were sent. Each goes to the first
// receive that asks for its tag, from this rank or from any; if there is none yet, it is kept, so
// that those behind it arrive. A receive takes what was kept first. A pipe is read only while some
// receive waits for it.
class PairMessages {
 public:
  explicit PairMessages(Transport& transport);

  // Begins a message named `id`, which is not 0. REQUIRES: the call is valid, and a send or
  // receive.
  void Begin(const CollectiveCall& call, uint64_t id);

  // True if no send or receive is under way. Then no message has arrived in part.
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
  // A send or receive of this rank.
  struct Message {
    uint64_t id = 0;
    CollectiveCall call;
    // The header that is sent, or expected but for its sequence.
    CallHeader header;
    size_t data_bytes = 0;
    // Send: bytes moved of header, data and padding.
    size_t moved = 0;
    bool waits = false;
    // Receive: the rank whose message this one gets; -1 until it is known.
    int source = -1;
    bool ended = false;
  };
  // A message that came before a receive asked for it.
  struct Kept {
    int peer = 0;
    CallHeader header;
    std::unique_ptr<std::byte[]> data;
    bool whole = false;
    // The receive that has asked for it meanwhile; 0: none.
    uint64_t receive = 0;
  };
  // What comes from a rank.
  struct Arrival {
    // Bytes moved of header, data and padding; 0: no message has begun.
    size_t moved = 0;
    size_t data_bytes = 0;
    std::byte* to = nullptr;
    // Where it goes: a receive, or a kept message.
    uint64_t receive = 0;
    Kept* kept = nullptr;
    bool waits = false;
    // True while receives from any rank alone wait for it.
    bool may_leave = false;
  };

  absl::StatusOr<size_t> Send(Message& message);
  absl::StatusOr<size_t> Receive(int peer);
  // Takes the header of the next message. Returns false if there is none yet, or none to be taken.
  absl::StatusOr<bool> BeginArrival(int peer);
  void EndArrival(int peer);
  // Returns the first receive without a source that takes a message of this rank, and of this tag
  // if there is one; null if there is none.
  Message* FindReceive(int peer, const int32_t* tag);
  void EndReceive(uint64_t id);
  absl::Status Deliver(const Kept& kept);
  // Returns FailedPrecondition and sets mismatch_ if message `sequence` of a rank is not what the
  // receive expects.
  absl::Status Compare(const Message& receive, int peer, uint64_t sequence,
                       const CallHeader& theirs);
  // Returns true if a message is arriving for which no receive has asked.
  bool IsKeeping() const;

  Transport& transport_;
  // Messages sent, and arrived, so far, by peer.
  std::vector<uint64_t> sends_;
  std::vector<uint64_t> arrived_;
  std::vector<Message> messages_;
  std::vector<Arrival> arrivals_;
  std::list<Kept> kept_;
  std::vector<Ended> ended_;
  // True for a peer, during a Step, if an earlier message to it is still under way.
  std::vector<bool> held_up_;
  Found mismatch_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_PAIR_MESSAGES_H_
