#include "server/server_metrics.h"

#include <utility>

#include "common/metrics/metric_families.h"
#include "common/metrics/metric_family_proto.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

void AddChannel(const v1::ChannelStats& channel, MetricFamilies& families) {
  const MetricLabels labels = {{"kind", channel.kind()}};
  families.AddGauge("muster_server_channel_connections", "Open connections of the data plane.",
                    labels, channel.connections());
  families.AddCounter("muster_server_channel_requests_total", "Requests by kind of connection.",
                      labels, channel.requests());
  families.AddCounter("muster_server_channel_received_bytes_total",
                      "Bytes received by kind of connection.", labels, channel.bytes_received());
  families.AddCounter("muster_server_channel_sent_bytes_total", "Bytes sent by kind of connection.",
                      labels, channel.bytes_sent());
}

void AddReplay(const v1::ReplayStatus& replay, MetricFamilies& families) {
  const MetricLabels labels = {{"job_id", replay.job_id()}};
  families.AddCounter("muster_server_replayed_bytes_total",
                      "Bytes of logs that the process has replayed.", labels, replay.bytes());
  families.AddCounter("muster_server_replayed_records_total",
                      "Records of logs that the process has replayed.", labels, replay.records());
  families.AddCounter("muster_server_replay_seconds_total",
                      "Time that replays have taken, from their first partition to their last.",
                      labels, replay.seconds());
}

void AddTable(const v1::TableStats& table, MetricFamilies& families) {
  const MetricLabels labels = {{"job_id", table.job_id()}};
  families.AddGauge("muster_server_partitions", "Partitions of a job.", labels, table.partitions());
  families.AddGauge("muster_server_dense_bytes", "Dense weights of a job.", labels,
                    table.dense_bytes());
  families.AddGauge("muster_server_sparse_rows", "Rows of a job's sparse tables.", labels,
                    table.sparse_rows());
  families.AddGauge("muster_server_rows_on_disk", "Rows among them that are on disk alone.", labels,
                    table.rows_on_disk());
  families.AddGauge("muster_server_memory_bytes", "Memory that a job's tables take.", labels,
                    table.memory_bytes());
  families.AddGauge("muster_server_log_bytes", "Logs of a job's partitions.", labels,
                    table.log_bytes());
}

}  // namespace

void AddServerMetrics(const v1::GetServerStatsReply& stats,
                      std::vector<prometheus::MetricFamily> others,
                      v1::HeartbeatRequest& heartbeat) {
  MetricFamilies families;
  AddBuildInfo("muster-server", families);
  families.AddCounter("muster_server_pushed_bytes_total", "Payload bytes of pushes.", {},
                      stats.bytes_pushed());
  families.AddCounter("muster_server_pulled_bytes_total", "Payload bytes of answers to pulls.", {},
                      stats.bytes_pulled());
  for (const v1::ChannelStats& channel : stats.channels()) AddChannel(channel, families);
  for (const v1::ReplayStatus& replay : heartbeat.replays()) AddReplay(replay, families);
  for (const v1::TableStats& table : stats.tables()) AddTable(table, families);
  families.Add(std::move(others));
  for (const auto& [name, family] : families.families()) {
    ToProto(family, *heartbeat.add_metrics());
  }
}

}  // namespace muster
