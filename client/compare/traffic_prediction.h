#ifndef MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
#define MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/compare/call_bytes.h"
#include "client/compare/worker_traffic.h"

namespace muster {

namespace v1 {
class JobSpec;
class PartitionPlacement;
class TablesSchema;
}  // namespace v1

// Payload bytes of dense parameters and, with tensor parallelism or a pipeline, of activations in
// one step, which follow from the job and its layout alone. Rows of sparse tables are left out,
// since they depend on the data.
struct PredictedTraffic {
  // Each worker's traffic, by slot. Under all-reduce, workers differ if they do not own equal parts
  // of a bucket or slice.
  std::vector<WorkerTraffic> workers;
  // The parts of it within tensor groups (tensor_traffic.h) and between stages
  // (pipeline_traffic.h).
  std::vector<WorkerTraffic> tensor;
  std::vector<WorkerTraffic> pipeline;
  // Bytes of parameters that each server sends, by id; empty on the all-reduce road.
  std::map<std::string, double> server_sent;
};

// Predicts the parameter-server road: every worker pulls the blocks of what it has of the model,
// and pushes those that it owns (common/partition/served_layout.h): all of them once, where ranks
// do not divide the model. Gradients and parameters have the wire's type. If that is f32,
// parameters that are only used in 16 bits are sent in 16 bits (PulledTypes), except to devices.
// `partitions` is the shard map; `spec` names workers, wire and devices. With tensor parallelism or
// a pipeline ranks send one another what tensor_traffic.h and pipeline_traffic.h say besides.
// InvalidArgument: the tensors cannot be laid out, or ranks cannot divide them.
absl::StatusOr<PredictedTraffic> PredictServerTraffic(
    const v1::TablesSchema& schema, absl::Span<const v1::PartitionPlacement* const> partitions,
    const v1::JobSpec& spec, AllReduceWay way);

// Predicts the all-reduce road from the schedules of a step's calls. `spec` gives workers,
// micro-batches, the ZeRO stage, and how gradients are divided, summed and sent. With P bytes of
// parameters of a rank and W data ranks, a rank sends
//
//   stage 0    2(W-1)/W·P for large buckets; small buckets are sent to all ranks at once, or over
//              sockets between pairs, in fewer steps and with more bytes
//   1 to 3     with S ranks in a shard group and m micro-batches: (S-1)/S times the bytes of
//              weights, in the types that the model computes with, for each time that they are
//              gathered, and of gradients for each time that they are scattered. Both happen once
//              under stage 1; gradients go m times under 2 and 3; weights under 3 as often as
//              GathersOfStep says (common/partition/unit_gathers.h): about 2 m times. With R > 1
//              shard groups, an all-reduce of each slice between R ranks besides. Parts are padded
//              to equal slices.
//
// and, with tensor parallelism and a pipeline, what tensor_traffic.h and pipeline_traffic.h say
// besides; P is the rank's own then. On devices, tensors are padded. InvalidArgument: the tensors
// cannot be laid out, or ranks cannot divide them.
absl::StatusOr<PredictedTraffic> PredictAllReduceTraffic(const v1::TablesSchema& schema,
                                                         const v1::JobSpec& spec, AllReduceWay way);

// Payload bytes of a worker's step by the mesh's axes; on the road of servers `data` is what it
// exchanges with them.
struct AxisTraffic {
  WorkerTraffic data;
  WorkerTraffic tensor;
  WorkerTraffic pipeline;

  WorkerTraffic total() const;
};

// Return the mean over the workers of each stage of PredictServerTraffic and
// PredictAllReduceTraffic, by axis; one entry without a pipeline. Take no longer for many data
// ranks than for two.
absl::StatusOr<std::vector<AxisTraffic>> PredictMeanServerTraffic(const v1::TablesSchema& schema,
                                                                  const v1::JobSpec& spec,
                                                                  AllReduceWay way);
absl::StatusOr<std::vector<AxisTraffic>> PredictMeanAllReduceTraffic(const v1::TablesSchema& schema,
                                                                     const v1::JobSpec& spec,
                                                                     AllReduceWay way);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMPARE_TRAFFIC_PREDICTION_H_
