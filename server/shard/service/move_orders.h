#ifndef MUSTER_SERVER_SHARD_SERVICE_MOVE_ORDERS_H_
#define MUSTER_SERVER_SHARD_SERVICE_MOVE_ORDERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/shard/moves/partition_mover.h"
#include "server/shard/service/partition_source.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
class HeartbeatRequest;
}  // namespace v1

// Carries out the coordinator's orders about moves, and reports. One thread takes partitions over,
// one after the other; another one lets go of them. What fails for now is tried again as long as it
// is ordered. Thread-safe.
class MoveOrders {
 public:
  // All outlive it. `log` takes one line, on any thread.
  MoveOrders(PartitionMover& mover, PartitionSource& source,
             std::function<void(absl::string_view)> log);
  // Ends what is under way.
  ~MoveOrders();

  MoveOrders(const MoveOrders&) = delete;
  MoveOrders& operator=(const MoveOrders&) = delete;

  // Called when there is something new to report; must not block. None: it waits for the heartbeat.
  void SetReportSoon(std::function<void()> report_soon);

  // Neither blocks.
  void TakeOrders(const v1::HeartbeatReply& orders);
  void Report(v1::HeartbeatRequest& request) const;

 private:
  struct Result {
    // A MoveReport::State.
    int state = 0;
    std::string message;
  };

  void RunAdoptions();
  void RunReleases();
  // The next order to adopt after the one tried last that has no result, so that one that fails
  // again and again is in nobody's way; false: there is none.
  bool NextAdoption(PartitionMove& move, std::string& address) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Note(const PartitionMove& move, Result result);
  void LogOnce(const std::string& line, std::string& last);

  PartitionMover& mover_;
  PartitionSource& source_;
  const std::function<void(absl::string_view)> log_;

  mutable absl::Mutex mutex_;
  std::function<void()> report_soon_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The orders; adoptions with the address of the old owner.
  std::map<PartitionMove, std::string> adopt_ ABSL_GUARDED_BY(mutex_);
  std::vector<PartitionMove> leaving_ ABSL_GUARDED_BY(mutex_);
  std::vector<PartitionMove> released_ ABSL_GUARDED_BY(mutex_);
  // Counts the orders that came.
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<PartitionMove, Result> results_ ABSL_GUARDED_BY(mutex_);
  // What the adopting thread began last.
  std::optional<PartitionMove> tried_ ABSL_GUARDED_BY(mutex_);
  // What it is at.
  std::unique_ptr<PartitionMove> adopting_ ABSL_GUARDED_BY(mutex_);
  // Last: they run from construction on.
  std::thread adoptions_;
  std::thread releases_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_MOVE_ORDERS_H_
