#ifndef MUSTER_CLIENT_TERMINAL_ROW_COUNTS_H_
#define MUSTER_CLIENT_TERMINAL_ROW_COUNTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

// Rows of a job's sparse tables on all servers.
struct RowCounts {
  uint64_t rows = 0;
  // Rows among these that are only on the servers' disks.
  uint64_t on_disk = 0;
};

// Reads the counts from the cluster's metrics in Prometheus text format, as of the servers' last
// heartbeats.
RowCounts RowCountsOf(absl::string_view metrics, const std::string& job_id);

// Returns a text such as "1.2 M, 1.1 M of them on disk alone"; empty if there are no rows.
std::string DescribeRows(const RowCounts& counts);

}  // namespace muster

#endif  // MUSTER_CLIENT_TERMINAL_ROW_COUNTS_H_
