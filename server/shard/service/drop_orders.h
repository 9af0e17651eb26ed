#ifndef MUSTER_SERVER_SHARD_SERVICE_DROP_ORDERS_H_
#define MUSTER_SERVER_SHARD_SERVICE_DROP_ORDERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace muster {

namespace v1 {
class HeartbeatReply;
class HeartbeatRequest;
}  // namespace v1

// Carries out the coordinator's orders to drop tables on a thread of its own, and reports what is
// done and what jobs the server holds. A drop that fails is tried again while ordered. Thread-safe.
class DropOrders {
 public:
  struct Server {
    // Drops a job's tables up to a generation (0: any); may block.
    std::function<absl::Status(const std::string& job_id, uint64_t generation)> drop;
    // Returns the jobs that have anything here, open or on the disk; may block.
    std::function<absl::StatusOr<std::vector<std::string>>()> held_jobs;
    // Takes one line, on any thread.
    std::function<void(absl::string_view)> log;
  };

  explicit DropOrders(Server server);
  // Ends after what is under way.
  ~DropOrders();

  DropOrders(const DropOrders&) = delete;
  DropOrders& operator=(const DropOrders&) = delete;

  // Sets what is called, without blocking, when there is news; null: news waits for the heartbeat.
  void SetReportSoon(std::function<void()> report_soon);

  // TakeOrders is to be called after each registration, and when the orders change. Neither blocks.
  void TakeOrders(const v1::HeartbeatReply& orders);
  void Report(v1::HeartbeatRequest& request) const;

 private:
  // Generations by job.
  using Jobs = std::map<std::string, uint64_t>;

  void Run();
  // Drops what is ordered and not done. Returns whether all of it could be dropped.
  bool DropAll();
  void NoteHeldJobs();
  void LogOnce(std::string line);

  const Server server_;
  // The line that was logged last; used by the thread alone.
  std::string last_trouble_;

  mutable absl::Mutex mutex_;
  std::function<void()> report_soon_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Jobs ordered_ ABSL_GUARDED_BY(mutex_);
  // Orders that are carried out.
  Jobs done_ ABSL_GUARDED_BY(mutex_);
  // Number of times that orders came.
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> held_jobs_ ABSL_GUARDED_BY(mutex_);
  // Declared last: the thread runs from construction on.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_DROP_ORDERS_H_
