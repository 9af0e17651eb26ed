#ifndef MUSTER_CLIENT_TERMINAL_READ_PROGRESS_H_
#define MUSTER_CLIENT_TERMINAL_READ_PROGRESS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace muster {

// Shows how much of large files was read, in a line that redraws itself on standard error; nothing
// where that is no terminal. Single-threaded.
class ReadProgress {
 public:
  // `shown`: whether there is a person to look at it.
  ReadProgress(bool shown, uint64_t bytes);
  ~ReadProgress();

  ReadProgress(const ReadProgress&) = delete;
  ReadProgress& operator=(const ReadProgress&) = delete;

  // Tells that so many bytes more were read.
  void Add(uint64_t bytes);
  // Removes the line.
  void End();

 private:
  const bool shown_;
  const uint64_t bytes_;
  uint64_t read_ = 0;
  bool drawn_ = false;
  // When the line is drawn again, on the monotonic clock.
  absl::Duration next_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_READ_PROGRESS_H_
