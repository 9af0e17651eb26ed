#ifndef MUSTER_WORKER_COLLECTIVES_HOST_CALL_ERRORS_H_
#define MUSTER_WORKER_COLLECTIVES_HOST_CALL_ERRORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collectives/host/call_header.h"
#include "worker/collectives/transport/transport.h"

namespace muster {

// The words of the errors that end a group: which rank, which call, and what the others did. Every
// text begins with the group's name and a colon. Immutable.
class CallErrors {
 public:
  // `ranks`: what the ranks are called, by rank; empty: "rank 2".
  CallErrors(std::string group, int size, std::vector<std::string> ranks);

  const std::string& group() const { return group_; }
  // Such as "slot 2".
  const std::string& rank(int rank) const { return ranks_[rank]; }
  const std::vector<std::string>& ranks() const { return ranks_; }

  // Whether `status` is one of those made here, on this rank or another, and thus complete.
  bool IsComplete(const absl::Status& status) const;

  struct Side {
    int rank = 0;
    CallHeader header;
    std::string label;
  };
  // FailedPrecondition: two ranks have made different calls.
  absl::Status Mismatch(const Side& one, const Side& other) const;

  // DeadlineExceeded: the call of `own`, with a rank's own state, did not end in time; `states` are
  // all ranks' by rank. `peer`: the one rank that matters, of a send or receive, or -1. Unavailable
  // in its place where a rank turns out to be gone.
  absl::Status Late(const CallState& own, int self, int peer, absl::Duration timeout,
                    absl::Span<const RankState> states) const;

  // Unavailable: what is gone according to `states`; where none is, `cause` tells, and the call.
  absl::Status Lost(const CallState& own, int self, const absl::Status& cause,
                    absl::Span<const RankState> states) const;

  // Aborted: rank `rank` called Abort(reason).
  absl::Status Aborted(int rank, const std::string& reason) const;

 private:
  absl::Status Gone(absl::Span<const RankState> states) const;

  const std::string group_;
  std::vector<std::string> ranks_;
};

// Such as: all_reduce f32 sum x 1024 ("bucket 3").
std::string Describe(const CallState& call);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_ERRORS_H_
