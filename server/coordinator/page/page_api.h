#ifndef MUSTER_SERVER_COORDINATOR_PAGE_PAGE_API_H_
#define MUSTER_SERVER_COORDINATOR_PAGE_PAGE_API_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/coordinator/coordinator_loop.h"
#include "server/page/request_target.h"

namespace muster {

// JobService's calls as the page makes them, each with its reply as JSON: docs/page.md lists them.
// A call asks the coordinator's logic thread for a reply as gRPC's calls do, and makes JSON of it
// on the caller's thread. Thread-safe.
class PageApi {
 public:
  // The loop outlives the API.
  explicit PageApi(CoordinatorLoop& loop) : loop_(loop) {}

  // Returns the method of what a path names, below /api/v1/: GET or POST. Empty: it names nothing.
  static absl::string_view MethodOf(absl::Span<const std::string> path);

  // Answers a call with JSON; `body` is a POST's. Blocks until the coordinator answers.
  // Unavailable: it does not within some seconds, or shuts down. ResourceExhausted: the answer is
  // too large. Other errors: InvalidArgument, and those of JobService's call. REQUIRES:
  // MethodOf(path) is not empty.
  absl::StatusOr<std::string> Answer(absl::Span<const std::string> path, const QueryFields& query,
                                     const std::string& body);

  // Returns the metrics of the cluster in Prometheus' text format, as `muster metrics` prints them.
  absl::StatusOr<std::string> Metrics();

 private:
  absl::StatusOr<std::string> ReadMetrics(const std::string& job, const QueryFields& query);
  absl::StatusOr<std::string> ReadLog(const std::string& job, const QueryFields& query);
  absl::StatusOr<std::string> Cancel(const std::string& job, const std::string& body);
  absl::StatusOr<std::string> Describe(const std::string& job, const std::string& body);
  absl::StatusOr<std::string> OfJob(const std::string& job, absl::string_view what);

  CoordinatorLoop& loop_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_PAGE_API_H_
