#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_

#include <cstdint>
#include <deque>
#include <optional>
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
  // Where appended text comes from.
  struct Origin {
    // Absent: not noted.
    std::optional<uint32_t> slot;
    // When it came; 0: not noted.
    int64_t unix_ms = 0;
  };
  struct Chunk {
    uint64_t offset = 0;
    std::string text;
    Origin origin;
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
  Change Append(absl::string_view text, const Origin& origin);

  // After a restart, in order of offset. What is not UTF-8 of it becomes a question mark a byte.
  void Restore(Chunk chunk);

  // Text as a reader gets it.
  struct Piece {
    // Of the text's first byte.
    uint64_t offset = 0;
    std::string text;
    // Bytes before the text, from where the reader was, that were dropped; with a slot, also those
    // of which it was not noted.
    uint64_t missing = 0;
    // Where the reader goes on.
    uint64_t next = 0;
  };
  // Text from `offset` on, at most `max_bytes` (at least 4, so that a character has capacity), or
  // only that of one slot. Nothing is missing within it. Empty at the end.
  Piece Read(uint64_t offset, uint64_t max_bytes, std::optional<uint32_t> slot = {}) const;

  // What of the log is to be read.
  struct Part {
    // Only text of this slot.
    std::optional<uint32_t> slot;
    // Only text that came at this time or later.
    int64_t since_unix_ms = 0;
    // Only so many lines at the end.
    std::optional<uint64_t> tail_lines;
  };
  // The offset to read a part from: 0 where some of it may have been dropped, so that Read tells.
  // With text of several slots a line counts where it ends, whoever wrote it.
  uint64_t StartOf(const Part& part) const;

  uint64_t end() const { return end_; }

 private:
  // Whether so many bytes at an offset become part of the last chunk.
  bool Joins(uint64_t offset, uint64_t bytes, const Origin& origin) const;

  const uint64_t max_bytes_;
  std::deque<Chunk> chunks_;
  uint64_t bytes_ = 0;
  uint64_t end_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_
