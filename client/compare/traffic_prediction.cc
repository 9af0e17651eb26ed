#include "client/compare/traffic_prediction.h"

#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "common/partition/schema.h"
#include "proto/schema.pb.h"
#include "proto/status.pb.h"

namespace muster {

absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    int workers, int element_bytes) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  const DenseLayout layout = LayoutFromSchema(schema);
  PredictedTraffic traffic;
  traffic.worker_sent = static_cast<double>(layout.elements() * element_bytes);
  traffic.worker_received = traffic.worker_sent;
  for (const v1::PartitionPlacement* placement : partitions) {
    double bytes = 0;
    for (uint32_t block : layout.partition_blocks(placement->partition())) {
      bytes += static_cast<double>(layout.blocks()[block].elements() * element_bytes);
    }
    for (const v1::Replica& replica : placement->replicas()) {
      if (replica.role() != v1::Replica::PRIMARY) continue;
      traffic.server_sent[replica.server_id()] += bytes * workers;
    }
  }
  return traffic;
}

absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         int workers, int element_bytes) {
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  const DenseLayout layout = LayoutFromSchema(schema);
  PredictedTraffic traffic;
  traffic.worker_sent =
      2.0 * (workers - 1) / workers * static_cast<double>(layout.elements() * element_bytes);
  traffic.worker_received = traffic.worker_sent;
  return traffic;
}

}  // namespace muster
