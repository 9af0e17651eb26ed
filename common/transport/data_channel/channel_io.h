#ifndef MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_IO_H_
#define MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_IO_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/transport/data_channel/io_loop.h"

namespace muster {

struct ChannelIoOptions {
  // Number of threads; 0: one for every eight processors, at most four.
  int threads = 0;
};

// Returns the threads for encrypting (TLS) channels: one for every two processors, at most eight.
int TlsIoThreads();

// The threads and the receive memory that all data channels of a process share. Thread-safe.
// Outlives the channels.
class ChannelIo {
 public:
  // Starts the threads. Unavailable: the system has no more descriptors.
  static absl::StatusOr<std::shared_ptr<ChannelIo>> Create(ChannelIoOptions options = {});

  // Returns the loop for one more channel, in turn.
  IoLoop& NextLoop() { return *loops_[next_.fetch_add(1) % loops_.size()]; }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }

 private:
  ChannelIo(std::vector<std::unique_ptr<IoLoop>> loops, std::shared_ptr<BufferPool> pool)
      : loops_(std::move(loops)), pool_(std::move(pool)) {}

  const std::vector<std::unique_ptr<IoLoop>> loops_;
  const std::shared_ptr<BufferPool> pool_;
  std::atomic<size_t> next_{0};
};

}  // namespace muster

#endif  // MUSTER_COMMON_TRANSPORT_DATA_CHANNEL_CHANNEL_IO_H_
