#ifndef MUSTER_SERVER_SERVER_METRICS_H_
#define MUSTER_SERVER_SERVER_METRICS_H_

#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class GetServerStatsReply;
class HeartbeatRequest;
}  // namespace v1

// Adds a server's figures to its heartbeat, which has its replays already. They are labelled
// `server="ID"` and, if they belong to a job, `job="ID"`.
void AddServerMetrics(absl::string_view server_id, const v1::GetServerStatsReply& stats,
                      v1::HeartbeatRequest& heartbeat);

}  // namespace muster

#endif  // MUSTER_SERVER_SERVER_METRICS_H_
