#ifndef MUSTER_SERVER_COORDINATOR_JOB_LOG_H_
#define MUSTER_SERVER_COORDINATOR_JOB_LOG_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// The last bytes of a job's log. A byte's offset counts from the job's first one and never changes,
// so readers can go on where they stopped and see what was dropped in between. Text is dropped by
// whole chunks, oldest first. A chunk is one append, or several short ones: text that comes byte by
// byte costs no more than text that comes at once. Appended text is UTF-8, and what is kept and
// read of it never begins or ends within a character. Not thread-safe.
class JobLog {
 public:
  struct Chunk {
    uint64_t offset = 0;
    std::string text;
  };

  // Keeps at least the last append (cut to its end if it is longer than this).
  explicit JobLog(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  struct Change {
    // The last chunk as it is now: the text, possibly cut, behind what it was joined to. Takes the
    // place of the chunk of that offset, if there was one.
    Chunk last;
    // Offsets of the chunks that were dropped for it.
    std::vector<uint64_t> dropped;
  };
  // REQUIRES: text is not empty.
  Change Append(absl::string_view text);

  // After a restart, in order of offset. What is not UTF-8 of it becomes a question mark a byte.
  void Restore(Chunk chunk);

  // Text from `offset` on, at most `max_bytes` (at least 4, so that a character has room); where it
  // begins shows what was dropped. Empty at the end.
  Chunk Read(uint64_t offset, uint64_t max_bytes) const;

  uint64_t end() const { return end_; }

 private:
  const uint64_t max_bytes_;
  std::deque<Chunk> chunks_;
  uint64_t bytes_ = 0;
  uint64_t end_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_LOG_H_
