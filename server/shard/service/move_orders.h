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
  // Mover and source outlive the object. `log` takes one line, on any thread.
  MoveOrders(PartitionMover& mover, PartitionSource& source,
             std::function<void(absl::string_view)> log);
  // Ends what is under way.
  ~MoveOrders();

  MoveOrders(const MoveOrders&) = delete;
  MoveOrders& operator=(const MoveOrders&) = delete;

  // Sets what is called, without blocking, when there is news; null: news waits for the heartbeat.
  void SetReportSoon(std::function<void()> report_soon);

  // TakeOrders and Report never block.
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
  // Finds the next order to adopt without a result, after the one tried last, so that one that
  // fails again and again is in nobody's way. Returns false if there is none.
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
  // Orders; adoptions come with the address of the old owner.
  std::map<PartitionMove, std::string> adopt_ ABSL_GUARDED_BY(mutex_);
  std::vector<PartitionMove> leaving_ ABSL_GUARDED_BY(mutex_);
  std::vector<PartitionMove> released_ ABSL_GUARDED_BY(mutex_);
  // Number of times that orders came.
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<PartitionMove, Result> results_ ABSL_GUARDED_BY(mutex_);
  // Move that the adopting thread began last.
  std::optional<PartitionMove> tried_ ABSL_GUARDED_BY(mutex_);
  // Move that the adopting thread is at now.
  std::unique_ptr<PartitionMove> adopting_ ABSL_GUARDED_BY(mutex_);
  // Declared last: the threads run from construction on.
  std::thread adoptions_;
  std::thread releases_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_MOVE_ORDERS_H_
