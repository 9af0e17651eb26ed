#ifndef MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/host/call_header.h"
#include "worker/collectives/host/call_plan.h"
#include "worker/collectives/reduce/reduce_kernels.h"
#include "worker/collectives/schedule.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// What a Step moves of one transfer. Large enough to make a system call or a lock small beside it,
// and several fit into the L2 cache.
constexpr size_t kCollectiveFragmentBytes = 128 << 10;

// Where in symmetric memory a call works; no memory: elsewhere.
struct SymmetricAddress {
  SymmetricMemory* memory = nullptr;
  size_t offset = 0;
  // As CallHeader::place.
  uint64_t name = 0;
};

// Carries out one collective call after another on a transport's pipes, without ever blocking: each
// Step moves what can be moved now.
//
// A call runs in one of three ways, all with the same headers in front:
//   streams  the schedule's transfers, in pieces that stay in the L2 cache: what one piece of a
//            reduction has written is sent on before the next one is reduced.
//   small    an all-reduce by kExchange: header and data go to each peer in one Write, and once
//            those of all peers are there, they are added up where they lie.
//   shared   an all-reduce in place of symmetric memory: once all have entered, each rank adds up
//            its slice straight from the memory of all and stores it into that of all; a second
//            header then tells that it is done. No byte goes through a pipe.
//
// Used by one thread at a time. Memory that data passes through is kept from call to call, so that
// none is faulted in after the first call of a kind and size. So are the plans of recent calls, but
// for those with counts by rank, which are planned anew each time (CallPlans).
class CollectiveRun {
 public:
  explicit CollectiveRun(Transport& transport);

  // REQUIRES: the call is valid, is no send or receive, and the last one has ended or failed for
  // good. What it points to stays until it has ended. `header` is for every peer.
  void Begin(const CollectiveCall& call, Algorithm algorithm, const CallHeader& header,
             const SymmetricAddress& place);

  enum class Progress { kNone, kSome, kDone };
  // FailedPrecondition, and differs(): another rank makes another call. Other errors are the
  // transport's.
  absl::StatusOr<Progress> Step();
  bool differs() const { return differs_; }

  // After a mismatch: reads the headers of all other ranks, as they come, so that all ranks see the
  // same and draw the same conclusion. Whether all have come.
  absl::StatusOr<bool> GatherHeaders();

  struct Seen {
    int peer = -1;
    // As sent to the peer, and as it came from it.
    CallHeader own;
    CallHeader theirs;
  };
  // The headers that have come, by rank.
  std::vector<Seen> headers() const;

  // Appends what the last Step lacked.
  void AddInterests(std::vector<PipeInterest>& interests) const;

  // Payload of the call, complete once it is done.
  CollectiveTraffic traffic() const { return traffic_; }

 private:
  enum class Way { kStreams, kSmall, kShared };

  // The two streams between this rank and a peer.
  struct Streams {
    CallHeader out;
    CallHeader expected;
    CallHeader in;
    size_t header_sent = 0;
    size_t header_received = 0;
    // Of the plan's transfers to and from the peer, how many have ended.
    size_t sent = 0;
    size_t received = 0;
    size_t padding_out = 0;
    size_t padding_in = 0;
    // The header is read ahead, together with what follows it.
    bool peeks_header = false;
    // The last Step could not go on without these.
    bool wants_room = false;
    bool wants_bytes = false;
  };

  void StartStreams();
  // From kSmall, whose message is on its way, to kStreams.
  void ContinueAsStreams();
  absl::StatusOr<Progress> StepStreams();
  absl::StatusOr<Progress> StepSmall();
  absl::StatusOr<Progress> StepShared();

  // Each moves one piece at most, and sets `moved` if it moved anything.
  absl::Status SendTo(int peer, bool& moved);
  absl::Status ReceiveFrom(int peer, bool& moved);
  absl::Status ReduceFromAll(int transfer, bool& moved);
  bool Copy(int transfer);
  // Leaves the Flush to the caller.
  absl::Status SendHeader(int peer, bool& moved);
  absl::Status ReceiveHeader(int peer, bool& moved);

  // Bytes of transfer `index` that may have been moved by now, by what it depends on.
  size_t Allowed(int index) const;
  size_t BytesOf(int index) const;
  const std::byte* From(const Transfer& transfer) const;
  std::byte* To(const Transfer& transfer);
  ReduceOp Op(const Transfer& transfer) const;
  bool StreamsEnded(int peer) const;

  Transport& transport_;
  const int rank_;
  const int size_;
  const CallPlan headers_alone_;
  CallPlans plans_;

  CollectiveCall call_;
  Algorithm algorithm_ = Algorithm::kDirect;
  CallHeader header_;
  SymmetricAddress place_;
  Way way_ = Way::kStreams;
  size_t element_ = 0;
  const CallPlan* plan_ = nullptr;
  // By transfer: bytes moved.
  std::vector<size_t> moved_;
  std::vector<Streams> streams_;
  std::vector<std::byte> scratch_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  // kSmall: header, data, padding. Looks for the others' before the thread may have to sleep.
  std::vector<std::byte> message_;
  size_t message_bytes_ = 0;
  const int looks_;
  // kShared: headers before and after; bytes of the own slice reduced.
  int round_ = 0;
  size_t reduced_ = 0;
  bool differs_ = false;
  CollectiveTraffic traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_
