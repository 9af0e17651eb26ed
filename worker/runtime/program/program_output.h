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
// waits; more than a log has use for is dropped, with a line in its place.
//
// Text is passed on by whole lines, and a line that has not ended after a while without its end. Of
// a line that was written over after carriage returns, as progress bars are, its last state is
// passed on, once it ends. Not thread-safe.
class ProgramOutput {
 public:
  struct Options {
    // Bytes that may be passed on at once, and per second in the long run.
    size_t burst_bytes = 1 << 20;
    size_t bytes_per_second = 128 << 10;
    // Bytes that are kept of the end.
    size_t tail_bytes = 4096;
    // Time for which a line's beginning waits for its end, and its most bytes.
    absl::Duration line_wait = absl::Seconds(1);
    size_t line_bytes = 8 << 10;
  };

  ProgramOutput(Options options, std::function<void(absl::string_view)> pass_on);

  // Takes text that came at `now`, a monotonic time. Call it without text, too, while none comes.
  void Add(absl::string_view text, absl::Duration now);
  // Passes on what still waits, ends the last line, and says how much was dropped at the end.
  void Finish();

  // Returns the end of all text, dropped or not, from the beginning of a line if it has several.
  // REQUIRES: Finish was called.
  std::string Tail() const;

 private:
  // Takes lines, of which the last may have no line break.
  void TakeLines(absl::string_view lines);
  void PassOn(absl::string_view text);
  void TellDropped();

  const Options options_;
  const std::function<void(absl::string_view)> pass_on_;
  // The beginning of a line, and when that came.
  std::string line_;
  absl::Duration line_began_;
  // True if what was passed on last ended within a line.
  bool within_line_ = false;
  // Bytes that may be passed on at `filled_at_`.
  double room_;
  absl::Duration filled_at_ = -absl::InfiniteDuration();
  uint64_t dropped_ = 0;
  std::string tail_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PROGRAM_PROGRAM_OUTPUT_H_
