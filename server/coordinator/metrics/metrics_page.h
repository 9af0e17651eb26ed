#ifndef MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_
#define MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace muster {

// GET /metrics over HTTP, as Prometheus asks: neither encrypted nor guarded, so for a network where
// whoever reaches it may read names of jobs and daemons. Nothing else is served: no body is read,
// no request above 8 KiB, none that takes more than two seconds, and no ranges. However many
// connect, eight are served at a time, and a further one takes the place of the oldest that
// dawdles.
class MetricsPage {
 public:
  // The page's text, in Prometheus' format; an error becomes status 503. Called on the page's
  // threads.
  using Text = std::function<absl::StatusOr<std::string>()>;

  // Serves on `listen`, HOST:PORT, port 0 taking a free one. InvalidArgument: not such an address.
  // Unavailable: cannot listen there.
  static absl::StatusOr<std::unique_ptr<MetricsPage>> Create(const std::string& listen, Text text);
  // Ends what is under way within some two seconds.
  virtual ~MetricsPage() = default;

  // HOST:PORT listened on.
  virtual const std::string& address() const = 0;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_METRICS_METRICS_PAGE_H_
