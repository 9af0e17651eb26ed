#ifndef MUSTER_SERVER_COORDINATOR_REQUESTS_METRICS_REQUESTS_H_
#define MUSTER_SERVER_COORDINATOR_REQUESTS_METRICS_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "proto/job_service.pb.h"
#include "server/coordinator/calls/call.h"
#include "server/coordinator/history/stored_history.h"
#include "server/coordinator/job/job_table.h"

namespace muster {

// JobService.ReadMetrics, without gRPC: a series of parked calls, each of which asks for the next
// message. Logic thread only.
class MetricsRequests {
 public:
  // Both outlive it.
  MetricsRequests(const JobTable& jobs, const Clock& clock) : jobs_(jobs), clock_(clock) {}

  // The part of a history that a reader has been sent. The first call of a stream has an empty one.
  struct Position {
    struct Sent {
      // True if the reader asked for the series; absent: not looked at yet.
      std::optional<bool> wanted;
      // Revision and last step of the series when it was sent; absent: it was not.
      std::optional<uint64_t> revision;
      std::optional<uint64_t> last_step;
    };
    // The position in each series.
    std::vector<Sent> series;
    // The series to look at next.
    size_t next = 0;
    // Number of marks that the reader has, and the last one.
    size_t marks = 0;
    std::optional<JobHistory::Mark> last_mark;
    // Time before which nothing more is sent.
    absl::Duration not_before = -absl::InfiniteDuration();
    // The history of a job that has ended; its readers share it.
    std::shared_ptr<const StoredHistory> ended;
  };

  struct Update {
    v1::MetricsChunk chunk;
    // Position to name in the next call.
    Position position;
    // True if no update follows.
    bool last = false;
  };
  // Answers with what the reader lacks, once there is something, or the end.
  void Next(const v1::ReadMetricsRequest& request, Position position, Call<Update> call);

  // Answers the parked calls for which something came, and those whose callers are gone.
  void AnswerChanged();
  void AnswerAll(const absl::Status& status);

 private:
  struct Reader {
    v1::ReadMetricsRequest request;
    Position position;
    Call<Update> call;
  };

  // Returns whether it answered the call.
  bool Answer(Reader& reader);
  // Fills an update; absent: there is nothing to send yet.
  absl::StatusOr<std::optional<Update>> UpdateFor(Reader& reader);
  // Returns the job's history, wherever it is. NotFound: there is no such job.
  absl::StatusOr<const JobHistory*> HistoryFor(Reader& reader);
  // Returns the history of a job that has ended. Readers of the same history share it.
  absl::StatusOr<std::shared_ptr<const StoredHistory>> ReadEnded(const Job& job);

  const JobTable& jobs_;
  const Clock& clock_;
  // Histories that readers hold, by job.
  absl::flat_hash_map<std::string, std::weak_ptr<const StoredHistory>> ended_;
  std::vector<Reader> readers_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_REQUESTS_METRICS_REQUESTS_H_
