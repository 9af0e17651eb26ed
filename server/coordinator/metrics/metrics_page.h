#ifndef MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// An HTTP server of GET /metrics, as Prometheus asks. Neither encrypted nor authenticated: for a
// network where anyone may read names of jobs and daemons. Other methods and ranges are refused,
// bodies not read; a request has at most 8 KiB, and a connection two seconds. Eight connections are
// served at a time; a further one takes the place of the oldest that waits for its client.
class MetricsPage {
 public:
  // Returns the page's text, or an error for status 503. Called on the page's threads.
  using Text = std::function<absl::StatusOr<std::string>()>;

  // Serves on `listen`, HOST:PORT; port 0: a free one. InvalidArgument: not an address.
  // Unavailable: cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Create(const std::string& listen, Text text);
  // Ends requests under way within about two seconds.
  virtual ~MetricsPage() = default;

  // Returns the HOST:PORT that it listens on.
  virtual const std::string& address() const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_
