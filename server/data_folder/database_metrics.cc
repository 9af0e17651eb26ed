#include "server/data_folder/database_metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>
#include <rocksdb/db.h>

#include <cstdint>
#include <string>
#include <utility>

namespace muster {
namespace {

using prometheus::MetricType;

struct Figure {
  const std::string& property;
  const char* name;
  const char* help;
  MetricType type = MetricType::Gauge;
};

}  // namespace

std::vector<prometheus::MetricFamily> DatabaseMetrics(rocksdb::DB& database) {
  using Properties = rocksdb::DB::Properties;
  const Figure figures[] = {
      {Properties::kLiveSstFilesSize, "muster_rocksdb_files_bytes", "Live table files on disk."},
      {Properties::kEstimateNumKeys, "muster_rocksdb_keys", "Keys, as RocksDB estimates them."},
      {Properties::kCurSizeAllMemTables, "muster_rocksdb_write_buffer_bytes",
       "Memory of recent writes that are not in table files yet."},
      {Properties::kBlockCacheUsage, "muster_rocksdb_block_cache_bytes",
       "Memory of blocks that were read."},
      {Properties::kEstimatePendingCompactionBytes, "muster_rocksdb_pending_compaction_bytes",
       "Bytes that compactions still have to rewrite."},
      {Properties::kNumRunningCompactions, "muster_rocksdb_running_compactions",
       "Compactions under way."},
      {Properties::kNumRunningFlushes, "muster_rocksdb_running_flushes",
       "Flushes of write buffers under way."},
      {Properties::kActualDelayedWriteRate, "muster_rocksdb_delayed_write_bytes_per_second",
       "Rate to which writes are slowed down; 0: they are not."},
      {Properties::kIsWriteStopped, "muster_rocksdb_writes_stopped",
       "1 while writes wait for flushes or compactions."},
      {Properties::kBackgroundErrors, "muster_rocksdb_background_errors_total",
       "Flushes and compactions that failed.", MetricType::Counter},
  };
  std::vector<prometheus::MetricFamily> families;
  for (const Figure& figure : figures) {
    uint64_t value = 0;
    if (!database.GetIntProperty(figure.property, &value)) continue;
    prometheus::MetricFamily& family = families.emplace_back();
    family.name = figure.name;
    family.help = figure.help;
    family.type = figure.type;
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    if (figure.type == MetricType::Counter) {
      metric.counter.value = static_cast<double>(value);
    } else {
      metric.gauge.value = static_cast<double>(value);
    }
  }
  return families;
}

}  // namespace muster
