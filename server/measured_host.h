#ifndef MUSTER_SERVER_MEASURED_HOST_H_
#define MUSTER_SERVER_MEASURED_HOST_H_

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <vector>

#include "common/base/clock.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// Measures how long the operations of another host take, from their arrival to their answer: a
// push with its sync to disk, a pull with its wait for slower slots. Thread-safe.
class MeasuredHost final : public PartitionHost {
 public:
  // Both outlive it.
  MeasuredHost(PartitionHost& host, const Clock& clock);

  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest& request) override;
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(
      const v1::EndGenerationRequest& request) override;
  absl::Status DropTables(const v1::DropTablesRequest& request) override;
  void Execute(ExchangeCall call) override;
  v1::GetServerStatsReply Stats() const override;

  std::vector<prometheus::MetricFamily> Metrics() const { return registry_.Collect(); }

 private:
  // Returns the histogram of the request's operation.
  prometheus::Histogram& SecondsOf(const v1::ExchangeRequest& request);

  PartitionHost& host_;
  const Clock& clock_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& seconds_;
  prometheus::Histogram& dense_push_;
  prometheus::Histogram& sparse_push_;
  prometheus::Histogram& close_;
  prometheus::Histogram& dense_pull_;
  prometheus::Histogram& sparse_pull_;
  prometheus::Histogram& cut_;
  prometheus::Histogram& clip_;
  prometheus::Histogram& other_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_MEASURED_HOST_H_
