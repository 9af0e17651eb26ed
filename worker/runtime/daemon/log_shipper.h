#ifndef MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_
#define MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
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

// Where tasks' output goes: the coordinator's AppendLogs.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // NotFound: the job is gone, the text may be dropped. Any other error: try again later.
  virtual absl::Status Append(const std::string& job_id, uint32_t slot,
                              const std::string& text) = 0;
};

// Over gRPC to the coordinator at `address`.
std::unique_ptr<LogSink> MakeGrpcLogSink(const std::string& address,
                                         const RpcCredentials& credentials);

struct LogShipperOptions {
  // Text held while the coordinator is away; beyond it the oldest is dropped, and a line says how
  // much.
  size_t max_bytes = 4 << 20;
  // Of one call.
  size_t max_chunk_bytes = 256 << 10;
  // Text is gathered this long before it is sent.
  absl::Duration gather = absl::Milliseconds(100);
  absl::Duration retry_after = absl::Seconds(1);
};

// Sends tasks' output on in order, on a thread of its own, so that it outlives the tasks. Never
// blocks those who add. Thread-safe.
class LogShipper {
 public:
  // `sink` outlives the shipper.
  LogShipper(LogSink& sink, LogShipperOptions options);
  // Ends; what is not sent is dropped.
  ~LogShipper();

  // `text` may hold any bytes, and ends with a whole character (ToUtf8 of common/text/utf8.h).
  void Add(const std::string& job_id, uint32_t slot, absl::string_view text);

  // Waits until everything added so far is sent or dropped, at most `timeout`; false: some is left.
  bool Flush(absl::Duration timeout);

 private:
  struct Chunk {
    std::string job_id;
    uint32_t slot = 0;
    std::string text;
  };

  void Run();
  void DropOldestLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LogSink& sink_;
  const LogShipperOptions options_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Someone waits in Flush: do not gather.
  int flushing_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Bytes lost by (job, slot) that no line has told of yet.
  std::map<std::pair<std::string, uint32_t>, size_t> dropped_ ABSL_GUARDED_BY(mutex_);
  // The first chunk is being sent: it must stay as it is.
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DAEMON_LOG_SHIPPER_H_
