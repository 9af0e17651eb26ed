#include "worker/runtime/coordinator_client/collective_records.h"

#include <string>

#include "absl/time/time.h"
#include "common/tensor/dtype.h"
#include "common/text/utf8.h"
#include "proto/task_service.pb.h"
#include "worker/collectives/collective_call.h"

namespace muster {

void AddCollectiveRecords(const FlightRecorder& recorder, v1::ReportCollectivesRequest& request) {
  for (const RecordedCall& call : recorder.Calls()) {
    v1::CollectiveRecord* record = request.add_calls();
    record->set_sequence(call.sequence);
    record->set_group(recorder.group());
    record->set_operation(Name(call.kind));
    record->set_dtype(Name(call.dtype));
    record->set_reduction(Name(call.reduction));
    record->set_count(call.count);
    record->set_label(call.label);
    record->set_started_unix_us(absl::ToUnixMicros(call.started));
    record->set_duration_us(
        call.duration == absl::InfiniteDuration() ? -1 : absl::ToInt64Microseconds(call.duration));
    if (!call.status.ok()) record->set_error(ToUtf8(call.status.ToString()));
  }
}

}  // namespace muster
