#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_ENGINE_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/collectives/flight_recorder.h"
#include "worker/collectives/host/call_errors.h"
#include "worker/collectives/host/collective_run.h"
#include "worker/collectives/host/pair_messages.h"
#include "worker/collectives/host/symmetric_buffers.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// How a call ended.
struct CallOutcome {
  bool ended = false;
  absl::Status status;
};

// What stands between a communicator's calls and a transport's pipes: numbers the calls, watches
// their deadlines, records them, and turns whatever goes wrong into the one error that ends the
// group everywhere. At one time either one collective call is under way or any number of messages.
//
// Used by one thread at a time, except traffic().
class CallEngine {
 public:
  // All of them outlive the engine. `same_machine`: as in HostCommunicatorOptions.
  CallEngine(Transport& transport, const CallErrors& errors, SymmetricBuffers& buffers,
             FlightRecorder& recorder, bool same_machine);

  // Whether a call of this kind may begin now.
  bool Takes(Collective kind) const;
  bool idle() const { return !in_collective_ && messages_.empty(); }

  // Begins the call; `outcome` is told when it ends, which may be at once. What both point to stays
  // until then. REQUIRES: Takes(call.kind).
  void Begin(const CollectiveCall& call, CallOutcome* outcome);

  // Moves what can be moved now; false: nothing could.
  bool Step();

  // After a Step that returned false: waits until the next one may do better, the transport is
  // woken, or `until` on the monotonic clock. Ends calls whose deadline has passed.
  void Block(absl::Duration until);

  // Ends what is under way and everything to come with `status`, here and on all ranks.
  void Fail(const absl::Status& status);

  CollectiveTraffic traffic() const;

 private:
  struct Active {
    // Of the recorder.
    uint64_t id = 0;
    CallState state;
    // The other rank of a message; -1: all.
    int peer = -1;
    absl::Duration timeout;
    // On the monotonic clock; infinite until the call first had to wait.
    absl::Duration deadline = absl::InfiniteDuration();
    CallOutcome* outcome = nullptr;
  };

  void BeginCollective(const CollectiveCall& call, uint64_t id);
  void End(Active& active, const absl::Status& status);
  void Count(const CollectiveTraffic& traffic);
  // Each composes the group's error and fails with it.
  void FailOnTransport(const absl::Status& status);
  void FailOnDifferentCalls();
  void FailOnDifferentMessages();
  // What all ranks are doing, by rank. A rank of which nothing later is known has at least been in
  // every collective call that ended here.
  std::vector<RankState> Survey();
  CallErrors::Side SideOf(int rank, const CallHeader& header, const RankState& state) const;
  void FailIfLate(absl::Duration now);
  Active& Find(uint64_t id);

  Transport& transport_;
  const CallErrors& errors_;
  SymmetricBuffers& buffers_;
  FlightRecorder& recorder_;
  const bool same_machine_;
  CollectiveRun collective_;
  PairMessages messages_;
  bool in_collective_ = false;
  // The group's collective calls, and all of this rank.
  uint64_t collectives_ = 0;
  uint64_t calls_ = 0;
  std::vector<Active> active_;
  // The last collective call that ended.
  CallState ended_;
  absl::Status failed_;
  uint64_t ticket_ = 0;
  uint32_t steps_ = 0;
  std::vector<PipeInterest> interests_;
  // Written by the thread that runs calls alone.
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> received_{0};
};

// The machine's monotonic clock.
absl::Duration MonotonicNow();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_ENGINE_H_
