#include "server/server_metrics.h"

#include <prometheus/metric_family.h>

#include <string>
#include <utility>

#include "common/metrics/metric_families.h"
#include "common/metrics/metric_family_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(ServerMetricsTest, FamiliesHaveTypesAndJobs) {
  v1::GetServerStatsReply stats;
  stats.set_bytes_pushed(100);
  stats.set_bytes_pulled(200);
  for (const char* job : {"a", "b"}) {
    v1::TableStats& table = *stats.add_tables();
    table.set_job_id(job);
    table.set_partitions(4);
    table.set_dense_bytes(1 << 20);
    table.set_sparse_rows(7);
    table.set_rows_on_disk(3);
    table.set_memory_bytes(1 << 21);
    table.set_log_bytes(5);
  }
  v1::ChannelStats& channel = *stats.add_channels();
  channel.set_kind("tcp");
  channel.set_connections(3);
  channel.set_bytes_received(99);
  v1::HeartbeatRequest heartbeat;
  v1::ReplayStatus& replay = *heartbeat.add_replays();
  replay.set_job_id("b");
  replay.set_bytes(300);
  replay.set_seconds(1.5);
  prometheus::MetricFamily other;
  other.name = "muster_rocksdb_keys";
  other.type = prometheus::MetricType::Gauge;
  other.metric.emplace_back().gauge.value = 17;
  AddServerMetrics(stats, {other}, heartbeat);
  MetricFamilies families;
  for (const v1::MetricFamily& message : heartbeat.metrics()) {
    const auto family = FromProto(message);
    ASSERT_TRUE(family.ok()) << family.status();
    families.Add(*family);
  }
  const std::string text = std::move(families).Text();
  for (const char* line : {
           "# TYPE muster_server_pushed_bytes_total counter",
           "muster_server_pushed_bytes_total 100",
           "muster_server_pulled_bytes_total 200",
           "muster_server_channel_connections{kind=\"tcp\"} 3",
           "muster_server_channel_received_bytes_total{kind=\"tcp\"} 99",
           "# TYPE muster_server_sparse_rows gauge",
           "muster_server_sparse_rows{job_id=\"b\"} 7",
           "muster_server_rows_on_disk{job_id=\"b\"} 3",
           "muster_server_replayed_bytes_total{job_id=\"b\"} 300",
           "muster_server_replay_seconds_total{job_id=\"b\"} 1.5",
           "muster_server_memory_bytes{job_id=\"a\"} 2097152",
           "muster_rocksdb_keys 17",
       }) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("muster_build_info{program=\"muster-server\""));
}

}  // namespace
}  // namespace muster
