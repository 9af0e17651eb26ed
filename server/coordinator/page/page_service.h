#ifndef MUSTER_SERVER_COORDINATOR_PAGE_PAGE_SERVICE_H_
#define MUSTER_SERVER_COORDINATOR_PAGE_PAGE_SERVICE_H_

#include <memory>
#include <string>
#include <vector>

#include "server/coordinator/coordinator_loop.h"
#include "server/page/http_message.h"

namespace muster {

struct PageRules {
  // True if whoever reaches the listener may read. Otherwise reading needs the token, and nobody
  // may read without one.
  bool anybody_reads = true;
  // Allows to read, and to cancel and describe jobs. Empty: nobody may do these.
  std::string token = {};
  // Names of the coordinator in Host headers, besides IP addresses and loopback names.
  std::vector<std::string> hosts = {};
};

// Returns the coordinator's page: the page itself, its files under /assets/, its calls under
// /api/v1/ and /metrics for Prometheus. docs/page.md says what may be asked for and what is
// refused. The loop outlives it.
std::unique_ptr<HttpService> MakePageService(CoordinatorLoop& loop, PageRules rules);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_PAGE_PAGE_SERVICE_H_
