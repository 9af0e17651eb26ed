#ifndef MUSTER_WORKER_COLLECTIVES_NCCL_LEDGER_ROUNDS_H_
#define MUSTER_WORKER_COLLECTIVES_NCCL_LEDGER_ROUNDS_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/nccl/call_ledger.h"

namespace muster {

// Exchanges the ranks' ledgers over a host communicator, on a thread of its own, while calls run on
// the devices.
//
// A round is one small all-gather. A round starts at once if this rank has a call to tell, or if
// the last round brought calls and some are still unconfirmed; after kPace while calls wait for a
// late rank; else after kTick. A round ends when the slowest rank has joined, which is at most
// kTick late unless its process is dead or stopped: the host communicator names a dead rank within
// a second, and for a stopped one the callers' deadlines count.
//
// Thread-safe, except that Split and Enter are called by one thread at a time.
class LedgerRounds {
 public:
  static constexpr absl::Duration kPace = absl::Microseconds(500);
  static constexpr absl::Duration kTick = absl::Milliseconds(20);

  // `host` has the same ranks and is used by nobody else. `names` is that of CallLedger.
  LedgerRounds(std::unique_ptr<Communicator> host, const std::string& group,
               std::vector<std::string> names);
  // Leaves the group, unless Leave was called.
  ~LedgerRounds();

  // Notes a call. Fails if the group has failed, or a rank has left.
  absl::StatusOr<CallLedger::Ticket> Enter(const LedgerEntry& entry);

  // Returns true once every rank that takes part is known to have made the same call.
  bool Confirmed(const CallLedger::Ticket& ticket) const;
  // Blocks until Confirmed, or returns the group's error. DeadlineExceeded: not within `timeout`.
  absl::Status AwaitConfirmed(const CallLedger::Ticket& ticket, absl::Duration timeout);

  // Notes a split, waits until all ranks make it, and splits the host communicator. Returns null
  // for a negative colour. The group fails if this takes longer than `timeout`.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(int colour, int key, absl::Duration timeout);

  // Returns OK, or the error of a failed group: the same on every rank that could be told.
  absl::Status status() const;

  // Proposes why the group should fail: status() on all ranks from the next round; the first
  // counts.
  void Propose(const absl::Status& reason);
  // Fails the group now, without a round, and tells the others if they can be reached. Does not
  // block.
  void Fail(const absl::Status& reason);

  // Tells the others that this rank makes no more calls; blocks until they know, at most `grace`.
  // REQUIRES: all its calls have ended.
  void Leave(absl::Duration grace);

  // Returns CallLedger::Describe().
  std::string Describe() const;

 private:
  struct SplitRequest {
    CallLedger::Ticket ticket;
    int colour = 0;
    int key = 0;
    bool done = false;
    absl::StatusOr<std::unique_ptr<Communicator>> result = absl::UnknownError("not split");
  };

  void Exchange();
  bool UrgentLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ErrorLocked() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  const std::unique_ptr<Communicator> host_;
  mutable absl::Mutex mutex_;
  CallLedger ledger_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Status proposal_ ABSL_GUARDED_BY(mutex_);
  SplitRequest* split_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // True if this rank has calls that no record carries yet.
  bool untold_ ABSL_GUARDED_BY(mutex_) = false;
  // True if the last round brought calls.
  bool moving_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_COLLECTIVES_NCCL_LEDGER_ROUNDS_H_
