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
// done and which jobs the server holds anything of. What fails is tried again as long as it is
// ordered. Thread-safe.
class DropOrders {
 public:
  struct Server {
    // Drops a job's tables up to a generation (0: any); may block.
    std::function<absl::Status(const std::string& job_id, uint64_t generation)> drop;
    // Jobs of which there is something, open or on the disk; may block.
    std::function<absl::StatusOr<std::vector<std::string>>()> held_jobs;
    // Takes one line, on any thread.
    std::function<void(absl::string_view)> log;
  };

  explicit DropOrders(Server server);
  // Ends after what is under way.
  ~DropOrders();

  DropOrders(const DropOrders&) = delete;
  DropOrders& operator=(const DropOrders&) = delete;

  // Called when there is something new to report; must not block. None: it waits for the heartbeat.
  void SetReportSoon(std::function<void()> report_soon);

  // To be called with the orders after each registration, and when they change. Neither blocks.
  void TakeOrders(const v1::HeartbeatReply& orders);
  void Report(v1::HeartbeatRequest& request) const;

 private:
  // Generations by job.
  using Jobs = std::map<std::string, uint64_t>;

  void Run();
  // Drops what is ordered and not done; whether all of it could be.
  bool DropAll();
  void NoteHeldJobs();
  void LogOnce(std::string line);

  const Server server_;
  // Of the thread alone: what was logged last.
  std::string last_trouble_;

  mutable absl::Mutex mutex_;
  std::function<void()> report_soon_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Jobs ordered_ ABSL_GUARDED_BY(mutex_);
  // Those of them that are carried out.
  Jobs done_ ABSL_GUARDED_BY(mutex_);
  // Counts the orders that came.
  uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> held_jobs_ ABSL_GUARDED_BY(mutex_);
  // Last: it runs from construction on.
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_SERVICE_DROP_ORDERS_H_
