#ifndef MUSTER_CLIENT_TENSORBOARD_HISTORY_EXPORT_H_
#define MUSTER_CLIENT_TENSORBOARD_HISTORY_EXPORT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/tensorboard/event_file.h"

namespace muster {

namespace v1 {
class MetricsChunk;
class Series;
}  // namespace v1

// Returns the name of a job's run folder: its name, with `_` for all but letters, digits, `-`, `_`
// and `.`, and its id.
std::string RunFolderName(absl::string_view job_name, absl::string_view job_id);

// Writes a job's history into a run folder of TensorBoard, message by message as ReadMetrics
// streams it. A series is a tag. Each point becomes one event: the mean of its values, at its last
// step and time. TensorBoard never reads back, so each step of a series is written once: a point
// that the coordinator sends again, merged into a coarser one or after an interruption, is left
// out. After a roll-back to clock c the next file begins with a session start at step c + 1, from
// which TensorBoard drops what came before. Not thread-safe.
class HistoryExport {
 public:
  // Makes the folder, with its parents. InvalidArgument: it has event files already. Other errors
  // are FileError's. `started_unix_ms` is the time of values whose own time is not known.
  static absl::StatusOr<std::unique_ptr<HistoryExport>> Create(const std::string& folder,
                                                               int64_t started_unix_ms);

  // Writes the points of a message; readers see them when this returns. Errors are FileError's.
  absl::Status Add(const v1::MetricsChunk& chunk);

  // Returns the number of events with values that were written.
  uint64_t values() const { return values_; }

 private:
  struct Tag {
    // The last written step, and the time of its value.
    std::optional<uint64_t> step;
    int64_t unix_ms = 0;
  };
  // A roll-back.
  struct Mark {
    uint64_t clock = 0;
    uint64_t reached = 0;
    int64_t unix_ms = 0;

    bool operator==(const Mark&) const = default;
  };

  HistoryExport(std::string folder, int64_t started_unix_ms);

  absl::Status BeginFile(int64_t unix_ms);
  absl::Status TakeMarks(const v1::MetricsChunk& chunk);
  void AddSeries(const v1::Series& series);

  const std::string folder_;
  const int64_t started_unix_ms_;
  int files_ = 0;
  std::unique_ptr<EventFile> file_;
  absl::flat_hash_map<std::string, Tag> tags_;
  // The last known roll-back. Absent before the first message, whose series the roll-backs that it
  // names have already cut.
  std::optional<Mark> last_mark_;
  uint64_t values_ = 0;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TENSORBOARD_HISTORY_EXPORT_H_
