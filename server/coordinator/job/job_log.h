#ifndef MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_
#define MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace muster {

// The last bytes of a job's log. Offsets count from the log's first byte and never change, so a
// reader can go on where it stopped and sees what was dropped in between. Text is dropped by whole
// log chunks, oldest first; a log chunk is one append, or several short ones, so text that comes
// byte by byte costs no more. Appended text is UTF-8; no kept or read text begins or ends within a
// character. Not thread-safe.
class JobLog {
 public:
  // Slot and time that appended text comes from.
  struct Origin {
    // Absent: not noted.
    std::optional<uint32_t> slot;
    // Time of arrival; 0: not noted.
    int64_t unix_ms = 0;
  };
  struct Chunk {
    uint64_t offset = 0;
    std::string text;
    Origin origin;
  };

  // Keeps at most `max_bytes` of text, the last; a longer append is cut to its end.
  explicit JobLog(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  struct Change {
    // The last log chunk as it is now; it replaces a stored one of the same offset.
    Chunk last;
    // Offsets of the log chunks that were dropped to make room.
    std::vector<uint64_t> dropped;
  };
  // Appends text and returns what to store. REQUIRES: text is not empty.
  Change Append(absl::string_view text, const Origin& origin);

  // Adds a stored log chunk; call in order of offset. Bytes that are not UTF-8 become question
  // marks.
  void Restore(Chunk chunk);

  // The text that one read returns.
  struct Excerpt {
    // Offset of the text's first byte.
    uint64_t offset = 0;
    std::string text;
    // Dropped bytes between the reader's offset and the text. A read of one slot also counts bytes
    // whose slot was not noted.
    uint64_t missing = 0;
    // Offset at which the reader goes on.
    uint64_t next = 0;
  };
  // Returns text from `offset` on, of one slot if `slot` is given: at most `max_bytes` (at least 4,
  // room for any character), with nothing missing within. Empty at the end of the log.
  Excerpt Read(uint64_t offset, uint64_t max_bytes, std::optional<uint32_t> slot = {}) const;

  // The part of a log that a reader asks for.
  struct Part {
    // Restricts the part to text of this slot.
    std::optional<uint32_t> slot;
    // Restricts the part to text that came at this time or later.
    int64_t since_unix_ms = 0;
    // Restricts the part to this many lines at the end.
    std::optional<uint64_t> tail_lines;
  };
  // Returns where to start reading a part: 0 if some of it may have been dropped, so that Read
  // tells. In text of several slots a line counts where it ends, whoever wrote it.
  uint64_t StartOf(const Part& part) const;

  uint64_t end() const { return end_; }

 private:
  // Returns whether text of this size at this offset is joined to the last log chunk.
  bool Joins(uint64_t offset, uint64_t bytes, const Origin& origin) const;

  const uint64_t max_bytes_;
  std::deque<Chunk> chunks_;
  uint64_t bytes_ = 0;
  uint64_t end_ = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_JOB_LOG_H_
