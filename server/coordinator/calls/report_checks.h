#ifndef MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_

#include "absl/status/status.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Checks that the numbers in a report are possible; others would be shown, summed up and stored for
// good. A loss that is not finite is an error, too: the task that finds one ends its job (see
// StepEngine). All return InvalidArgument, which names the field.

// Checks the numbers of a message, not of nested ones: counts are at most 2^53, others finite,
// except those of the fields `any`.
absl::Status CheckNumbers(const google::protobuf::Message& report,
                          absl::Span<const absl::string_view> any = {});

// Checks numbers as above, that loads are those of the job's experts, and once the job's tasks have
// met that clocks are at most its steps, and examples at most what the steps or the held-out data
// can have.
absl::Status CheckReport(const v1::JobRecord& job, const v1::RendezvousRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportProgressRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportEvaluationRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::AdjustRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::VerifyStepRequest& report);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_
