#ifndef MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/collectives/schedule.h"
#include "worker/collectives/collective_call.h"
#include "worker/collectives/host/call_header.h"
#include "worker/collectives/host/call_plan.h"
#include "worker/collectives/reduce/reduce_kernels.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// Size of a fragment, the most that a Step moves of one transfer: large enough that a system call
// or a lock costs little beside it, and small enough that several fit into the L2 cache.
constexpr size_t kCollectiveFragmentBytes = 128 << 10;

// The place in symmetric memory of a call's whole vector (SharedVector); null memory if elsewhere.
struct SymmetricAddress {
  SymmetricMemory* memory = nullptr;
  size_t offset = 0;
  // The number of elements of the vector.
  size_t elements = 0;
  // Value of CallHeader::place.
  uint64_t name = 0;
};

// Returns the vector, of which each rank owns a slice, that ranks read and write in each other's
// memory if it is symmetric; null if a call of that kind, or not in place, has none.
const void* SharedVector(const CollectiveCall& call);

// Carries out one collective call after another on a transport's pipes, without ever blocking: each
// Step moves what can be moved now.
//
// A call runs in one of three ways, all with the same headers in front:
//   streams  the schedule's transfers, in fragments that stay in the L2 cache: the result of one
//            fragment's reduction is sent on before the next fragment is reduced.
//   small    an all-reduce by kExchange: each peer gets header and data in one Write; once those
//            of all peers have come, they are added up where they lie in the pipes.
//   shared   an all-reduce in place in symmetric memory, a reduce-scatter from it or an all-gather
//            into it: once all ranks have entered, each reads its slice straight from the ranks'
//            memory, adds it up, and stores the result straight into the ranks' memory that is to
//            have it; a second header then tells that the rank is done. No payload goes through a
//            pipe.
//
// Used by one thread at a time. Memory that data passes through is kept from call to call, so that
// calls after the first of a kind and size cause no page faults. Plans are kept, too (CallPlans).
class CollectiveRun {
 public:
  explicit CollectiveRun(Transport& transport);

  // Begins a call, whose memory must stay valid until it has ended; `header` goes to every peer.
  // REQUIRES: a valid call, no send or receive; the last call has ended or failed for good.
  void Begin(const CollectiveCall& call, Algorithm algorithm, const CallHeader& header,
             const SymmetricAddress& place);

  enum class Progress { kNone, kSome, kDone };
  // Moves what can be moved now. FailedPrecondition, and differs(): another rank makes another
  // call. Other errors are the transport's.
  absl::StatusOr<Progress> Step();
  bool differs() const { return differs_; }

  // Reads the headers of all other ranks as they come, after a mismatch, so that all ranks draw the
  // same conclusion. Returns true once all have come.
  absl::StatusOr<bool> GatherHeaders();

  struct Seen {
    int peer = -1;
    // Headers sent to the peer and received from it.
    CallHeader own;
    CallHeader theirs;
  };
  // Returns the headers that have come, by rank.
  std::vector<Seen> headers() const;

  // Appends the pipes for which the last Step had to wait.
  void AddInterests(std::vector<PipeInterest>& interests) const;

  // Returns the payload of the call, complete once the call is done.
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
    // Number of the plan's transfers to and from the peer that have ended.
    size_t sent = 0;
    size_t received = 0;
    size_t padding_out = 0;
    size_t padding_in = 0;
    // True if the header is read ahead, together with what follows it.
    bool peeks_header = false;
    // True if the last Step had to wait for room, or for bytes.
    bool wants_room = false;
    bool wants_bytes = false;
  };

  // Moves a fragment of the own slice between the ranks' memories.
  void MoveShared();
  void CopyShared(const std::byte* from, std::byte* to, size_t bytes);
  void StartStreams();
  // Goes on as kStreams from kSmall, whose message has been sent.
  void ContinueAsStreams();
  absl::StatusOr<Progress> StepStreams();
  absl::StatusOr<Progress> StepSmall();
  absl::StatusOr<Progress> StepShared();

  // Each moves at most one fragment, and sets `moved` if anything moved.
  absl::Status SendTo(int peer, bool& moved);
  absl::Status ReceiveFrom(int peer, bool& moved);
  absl::Status ReduceFromAll(int transfer, bool& moved);
  bool Copy(int transfer);
  // Leaves the Flush to the caller.
  absl::Status SendHeader(int peer, bool& moved);
  absl::Status ReceiveHeader(int peer, bool& moved);

  // Returns how many bytes of transfer `index` may have been moved by now, given its dependencies.
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
  // Bytes moved, by transfer.
  std::vector<size_t> moved_;
  std::vector<Streams> streams_;
  std::vector<std::byte> scratch_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  // kSmall: header, data and padding.
  std::vector<std::byte> message_;
  size_t message_bytes_ = 0;
  // Number of looks for others' messages in a kSmall Step.
  const int looks_;
  // kShared: 1 once the own slice is moved, as the second header tells.
  int round_ = 0;
  // kShared: the own slice of the whole vector, and how many of its elements are moved.
  Slice own_;
  size_t own_moved_ = 0;
  bool differs_ = false;
  CollectiveTraffic traffic_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_COLLECTIVE_RUN_H_
