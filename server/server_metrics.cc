#include "server/server_metrics.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/metrics/metric_registry.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {

void AddServerMetrics(absl::string_view server_id, const v1::GetServerStatsReply& stats,
                      v1::HeartbeatRequest& heartbeat) {
  const std::string server = MetricLabel("server", server_id);
  const auto add = [&](const char* name, const std::string& labels, double value) {
    v1::MetricSample& sample = *heartbeat.add_metrics();
    sample.set_name(name);
    sample.set_labels(labels);
    sample.set_value(value);
  };
  add("muster_server_pushed_bytes_total", server, stats.bytes_pushed());
  add("muster_server_pulled_bytes_total", server, stats.bytes_pulled());
  for (const v1::ChannelStats& channel : stats.channels()) {
    const std::string labels = absl::StrCat(server, ",", MetricLabel("kind", channel.kind()));
    add("muster_server_channel_connections", labels, channel.connections());
    add("muster_server_channel_requests_total", labels, channel.requests());
    add("muster_server_channel_received_bytes_total", labels, channel.bytes_received());
    add("muster_server_channel_sent_bytes_total", labels, channel.bytes_sent());
  }
  for (const v1::ReplayStatus& replay : heartbeat.replays()) {
    const std::string labels = absl::StrCat(server, ",", MetricLabel("job", replay.job_id()));
    add("muster_server_replayed_bytes_total", labels, replay.bytes());
    add("muster_server_replayed_records_total", labels, replay.records());
    add("muster_server_replay_seconds_total", labels, replay.seconds());
  }
  for (const v1::TableStats& table : stats.tables()) {
    const std::string labels = absl::StrCat(server, ",", MetricLabel("job", table.job_id()));
    add("muster_server_partitions", labels, table.partitions());
    add("muster_server_dense_bytes", labels, table.dense_bytes());
    add("muster_server_sparse_rows", labels, table.sparse_rows());
    add("muster_server_rows_on_disk", labels, table.rows_on_disk());
    add("muster_server_memory_bytes", labels, table.memory_bytes());
    add("muster_server_log_bytes", labels, table.log_bytes());
  }
}

}  // namespace muster
