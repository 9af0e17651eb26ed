#include "server/measured_host.h"

#include <iterator>
#include <utility>

#include "common/metrics/time_bounds.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

prometheus::Histogram& AddOperation(const char* operation,
                                    prometheus::Family<prometheus::Histogram>& family) {
  return family.Add(
      {{"operation", operation}},
      prometheus::Histogram::BucketBoundaries(std::begin(kTimeBounds), std::end(kTimeBounds)));
}

}  // namespace

MeasuredHost::MeasuredHost(PartitionHost& host, const Clock& clock)
    : host_(host),
      clock_(clock),
      seconds_(prometheus::BuildHistogram()
                   .Name("muster_server_operation_seconds")
                   .Help("Times of operations on partitions, from arrival to answer. Pulls wait "
                         "for slots as the staleness bound says.")
                   .Register(registry_)),
      dense_push_(AddOperation("dense_push", seconds_)),
      sparse_push_(AddOperation("sparse_push", seconds_)),
      close_(AddOperation("close", seconds_)),
      dense_pull_(AddOperation("dense_pull", seconds_)),
      sparse_pull_(AddOperation("sparse_pull", seconds_)),
      cut_(AddOperation("cut", seconds_)),
      clip_(AddOperation("clip", seconds_)),
      other_(AddOperation("other", seconds_)) {}

absl::StatusOr<v1::OpenTablesReply> MeasuredHost::OpenTables(const v1::OpenTablesRequest& request) {
  return host_.OpenTables(request);
}

absl::StatusOr<v1::EndGenerationReply> MeasuredHost::EndGeneration(
    const v1::EndGenerationRequest& request) {
  return host_.EndGeneration(request);
}

absl::Status MeasuredHost::DropTables(const v1::DropTablesRequest& request) {
  return host_.DropTables(request);
}

v1::GetServerStatsReply MeasuredHost::Stats() const { return host_.Stats(); }

void MeasuredHost::Execute(ExchangeCall call) {
  call.done = [this, &seconds = SecondsOf(*call.request), started = clock_.Monotonic(),
               done = std::move(call.done)](v1::ExchangeReply reply, Payload payload) {
    seconds.Observe(absl::ToDoubleSeconds(clock_.Monotonic() - started));
    done(std::move(reply), std::move(payload));
  };
  host_.Execute(std::move(call));
}

prometheus::Histogram& MeasuredHost::SecondsOf(const v1::ExchangeRequest& request) {
  switch (request.operation_case()) {
    case v1::ExchangeRequest::kDensePush:
      return dense_push_;
    case v1::ExchangeRequest::kSparsePush:
      return sparse_push_;
    case v1::ExchangeRequest::kClose:
      return close_;
    case v1::ExchangeRequest::kDensePull:
      return dense_pull_;
    case v1::ExchangeRequest::kSparsePull:
      return sparse_pull_;
    case v1::ExchangeRequest::kCut:
      return cut_;
    case v1::ExchangeRequest::kClip:
      return clip_;
    default:
      return other_;
  }
}

}  // namespace muster
