#ifndef MUSTER_COMMON_COMPUTE_STREAM_H_
#define MUSTER_COMMON_COMPUTE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"

namespace muster {

// The order in which one Ops (ops.h) works, and the way between its memory and the host's. Calls
// only queue; what they are given lives until the work is done.
//
// The first failure is kept: later calls do nothing more, and status() and Synchronize() return it,
// so that the hundreds of operations of a step need one check. Used by one thread at a time.
class ComputeStream {
 public:
  virtual ~ComputeStream() = default;

  // From the host's memory to that of the ops, and back.
  virtual void CopyIn(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyOut(void* to, const void* from, size_t bytes) = 0;
  // Sets every byte, of the ops' memory.
  virtual void Fill(void* to, uint8_t value, size_t bytes) = 0;

  // Blocks until everything queued is done.
  virtual absl::Status Synchronize() = 0;
  // Does not block.
  virtual absl::Status status() const = 0;
  // Notes a failure; OK is ignored.
  virtual void Fail(absl::Status status) = 0;
};

// The stream of ops whose memory is the host's. It does everything at once.
class HostStream final : public ComputeStream {
 public:
  void CopyIn(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes); }
  void CopyOut(void* to, const void* from, size_t bytes) override { Copy(to, from, bytes); }
  void Fill(void* to, uint8_t value, size_t bytes) override {
    if (status_.ok() && bytes > 0) std::memset(to, value, bytes);
  }
  absl::Status Synchronize() override { return status_; }
  absl::Status status() const override { return status_; }
  void Fail(absl::Status status) override { status_.Update(std::move(status)); }

 private:
  void Copy(void* to, const void* from, size_t bytes) {
    if (status_.ok() && bytes > 0) std::memcpy(to, from, bytes);
  }

  absl::Status status_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COMPUTE_STREAM_H_
