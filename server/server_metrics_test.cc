#include "server/server_metrics.h"

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

TEST(ServerMetricsTest, NamesServerAndJob) {
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
  AddServerMetrics("s0", stats, heartbeat);
  std::map<std::string, double> values;
  for (const v1::MetricSample& sample : heartbeat.metrics()) {
    values[sample.name() + "{" + sample.labels() + "}"] = sample.value();
  }
  EXPECT_EQ(values.size(), 21u);
  EXPECT_EQ(values["muster_server_pushed_bytes_total{server=\"s0\"}"], 100);
  EXPECT_EQ(values["muster_server_channel_connections{server=\"s0\",kind=\"tcp\"}"], 3);
  EXPECT_EQ(values["muster_server_channel_received_bytes_total{server=\"s0\",kind=\"tcp\"}"], 99);
  EXPECT_EQ(values["muster_server_pulled_bytes_total{server=\"s0\"}"], 200);
  EXPECT_EQ(values["muster_server_sparse_rows{server=\"s0\",job=\"b\"}"], 7);
  EXPECT_EQ(values["muster_server_rows_on_disk{server=\"s0\",job=\"b\"}"], 3);
  EXPECT_EQ(values["muster_server_replayed_bytes_total{server=\"s0\",job=\"b\"}"], 300);
  EXPECT_EQ(values["muster_server_replay_seconds_total{server=\"s0\",job=\"b\"}"], 1.5);
  EXPECT_EQ(values["muster_server_memory_bytes{server=\"s0\",job=\"a\"}"], 1 << 21);
}

}  // namespace
}  // namespace muster
