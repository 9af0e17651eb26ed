#ifndef MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_OUTPUT_H_
#define MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Takes what a program prints to the job's log. All of it is taken, so that the program never
// waits; more than a log has use for is dropped, with a line in its place. Not thread-safe.
class ProgramOutput {
 public:
  struct Options {
    // Bytes that may be passed on at once, and per second in the long run.
    size_t burst_bytes = 1 << 20;
    size_t bytes_per_second = 128 << 10;
    // Bytes that are kept of the end.
    size_t tail_bytes = 2048;
  };

  ProgramOutput(Options options, std::function<void(absl::string_view)> pass_on);

  // Takes text that came at `now`, a monotonic time.
  void Add(absl::string_view text, absl::Duration now);
  // Says how much was dropped at the end, if anything was.
  void Finish();

  // Returns the end of all text, dropped or not, from the beginning of a line if it has several.
  std::string Tail() const;

 private:
  void TellDropped();

  const Options options_;
  const std::function<void(absl::string_view)> pass_on_;
  // Bytes that may be passed on at `filled_at_`.
  double room_;
  absl::Duration filled_at_ = -absl::InfiniteDuration();
  uint64_t dropped_ = 0;
  std::string tail_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_OUTPUT_H_
