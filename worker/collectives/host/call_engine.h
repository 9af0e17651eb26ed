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

// The result of a call once ended.
struct CallOutcome {
  bool ended = false;
  absl::Status status;
};

// Carries out a communicator's calls on a transport's pipes: numbers the calls, watches their
// deadlines, records them, and turns whatever goes wrong into the one error that ends the group on
// all ranks. Either one collective call is under way or any number of messages.
//
// Used by one thread at a time, except traffic().
class CallEngine {
 public:
  // Borrows all arguments. `same_machine` is that of HostCommunicatorOptions.
  CallEngine(Transport& transport, const CallErrors& errors, SymmetricBuffers& buffers,
             FlightRecorder& recorder, bool same_machine);

  // Returns true if a call of this kind may begin now.
  bool Takes(Collective kind) const;
  bool idle() const { return !in_collective_ && messages_.empty(); }

  // Begins the call, and fills `outcome` when the call ends, which may be at once. `outcome` and
  // the call's memory must stay valid until then. REQUIRES: Takes(call.kind).
  void Begin(const CollectiveCall& call, CallOutcome* outcome);

  // Moves what can be moved now. Returns false if nothing could.
  bool Step();

  // Blocks after a Step that returned false, until the next one may do better, the transport is
  // woken, or the monotonic clock reaches `until`. First ends calls whose deadline has passed.
  void Block(absl::Duration until);

  // Ends all calls, now and to come, with `status`, here and on all ranks.
  void Fail(const absl::Status& status);

  CollectiveTraffic traffic() const;

 private:
  struct Active {
    // Sequence number in the recorder.
    uint64_t id = 0;
    CallState state;
    // The other rank of a message; -1 for a collective call, and a receive from any rank.
    int peer = -1;
    absl::Duration timeout;
    // Deadline on the monotonic clock; infinite until the call first has to wait.
    absl::Duration deadline = absl::InfiniteDuration();
    CallOutcome* outcome = nullptr;
  };

  void BeginCollective(const CollectiveCall& call, uint64_t id);
  void End(Active& active, const absl::Status& status);
  void Count(const CollectiveTraffic& traffic);
  // Each composes the group's error and fails the group with it.
  void FailOnTransport(const absl::Status& status);
  void FailOnDifferentCalls();
  void FailOnDifferentMessages();
  // Returns what all ranks are doing, by rank. A rank that reports nothing later counts as having
  // been in every collective call that ended here.
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
  // Number of the group's collective calls, and of all calls of this rank.
  uint64_t collectives_ = 0;
  uint64_t calls_ = 0;
  std::vector<Active> active_;
  // The last collective call that ended.
  CallState ended_;
  absl::Status failed_;
  uint64_t ticket_ = 0;
  uint32_t steps_ = 0;
  std::vector<PipeInterest> interests_;
  // Written only by the thread that runs calls.
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> received_{0};
};

// Returns the time on the machine's monotonic clock.
absl::Duration MonotonicNow();

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_ENGINE_H_
