#ifndef MUSTER_SERVER_DATA_FOLDER_DATABASE_METRICS_H_
#define MUSTER_SERVER_DATA_FOLDER_DATABASE_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace muster {

// Returns RocksDB's own figures: sizes on disk and in memory, what it still has to compact, and
// whether it slows writes down. Takes microseconds. Thread-safe.
std::vector<prometheus::MetricFamily> DatabaseMetrics(rocksdb::DB& database);

}  // namespace muster

#endif  // MUSTER_SERVER_DATA_FOLDER_DATABASE_METRICS_H_
