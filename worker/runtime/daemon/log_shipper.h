#ifndef MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_
#define MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/rpc_credentials.h"

namespace muster {

// A sink of tasks' output, such as the coordinator's AppendLogs.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // Appends text to a slot's log. NotFound: the job is gone, drop the text. Other errors: try
  // again.
  virtual absl::Status Append(const std::string& job_id, uint32_t slot,
                              const std::string& text) = 0;
};

// Returns a sink that sends text over gRPC to the coordinator at `address`.
std::unique_ptr<LogSink> MakeGrpcLogSink(const std::string& address,
                                         const RpcCredentials& credentials);

struct LogShipperOptions {
  // Most bytes of text held. Beyond this the oldest text is dropped, and a log line says how much.
  size_t max_bytes = 4 << 20;
  // Most bytes of text in one call.
  size_t max_chunk_bytes = 256 << 10;
  // Time for which text is gathered before it is sent.
  absl::Duration gather = absl::Milliseconds(100);
  absl::Duration retry_after = absl::Seconds(1);
};

// Sends tasks' output to a sink in order, on its own thread. Output outlives its task. Thread-safe.
class LogShipper {
 public:
  // `sink` outlives the shipper.
  LogShipper(LogSink& sink, LogShipperOptions options);
  // Drops what is not sent.
  ~LogShipper();

  // Adds text without blocking. Text may hold any bytes and must end with a whole character; ToUtf8
  // (common/text/utf8.h) makes it UTF-8.
  void Add(const std::string& job_id, uint32_t slot, absl::string_view text);

  // Blocks until all text is sent or dropped, at most for `timeout`. Returns false if text is left.
  bool Flush(absl::Duration timeout);
  // The same for the text of one slot of a job.
  bool FlushSlot(const std::string& job_id, uint32_t slot, absl::Duration timeout);

 private:
  struct Chunk {
    std::string job_id;
    uint32_t slot = 0;
    std::string text;
  };

  void Run();
  void DropOldestLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Blocks until `flushed`, at most for `timeout`. Returns whether it is.
  bool Await(const absl::Condition& flushed, absl::Duration timeout);

  LogSink& sink_;
  const LogShipperOptions options_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Number of callers that wait in Flush; while there are any, text is not gathered.
  int flushing_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Dropped bytes by (job, slot) that no log line tells of yet.
  std::map<std::pair<std::string, uint32_t>, size_t> dropped_ ABSL_GUARDED_BY(mutex_);
  // The (job, slot) whose text that was sent last ended within a line.
  std::set<std::pair<std::string, uint32_t>> within_line_ ABSL_GUARDED_BY(mutex_);
  // True while the first chunk is being sent; the chunk must not change then.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_
