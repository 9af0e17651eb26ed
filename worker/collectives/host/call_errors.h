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

// Composes the errors that end a group. Each says which rank, which call and what the others did,
// and begins with the group's name and a colon. Immutable.
class CallErrors {
 public:
  // `ranks` are the ranks' names, by rank; if empty, "rank 2".
  CallErrors(std::string group, int size, std::vector<std::string> ranks);

  const std::string& group() const { return group_; }
  // Returns the rank's name, such as "slot 2".
  const std::string& rank(int rank) const { return ranks_[rank]; }
  const std::vector<std::string>& ranks() const { return ranks_; }

  // Returns true if `status` was composed by a CallErrors, here or on another rank.
  bool IsComplete(const absl::Status& status) const;

  struct Side {
    int rank = 0;
    CallHeader header;
    std::string label;
  };
  // Returns FailedPrecondition: two ranks have made different calls.
  absl::Status Mismatch(const Side& one, const Side& other) const;

  // Returns DeadlineExceeded: call `own` of rank `self` did not end in time; or Unavailable if a
  // rank is gone. `peer` is the other rank of a send or receive, -1 if there is none or any.
  // `states` are listed by rank.
  absl::Status Late(const CallState& own, int self, int peer, absl::Duration timeout,
                    absl::Span<const RankState> states) const;

  // Returns Unavailable with the ranks that are gone by `states`; if none is, `cause` with the
  // call.
  absl::Status Lost(const CallState& own, int self, const absl::Status& cause,
                    absl::Span<const RankState> states) const;

  // Returns Aborted: rank `rank` called Abort(reason).
  absl::Status Aborted(int rank, const std::string& reason) const;

 private:
  absl::Status Gone(absl::Span<const RankState> states) const;

  const std::string group_;
  std::vector<std::string> ranks_;
};

// Returns a text such as: all_reduce f32 sum x 1024 ("bucket 3").
std::string Describe(const CallState& call);

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_HOST_CALL_ERRORS_H_
