#ifndef MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_

#include "absl/status/status.h"
#include "proto/job_record.pb.h"
#include "proto/task_service.pb.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace muster {

// Whether what a task reports can be: a number that no task reaches would be shown, summed up and
// stored for good. A loss that is not finite is no report either: the task that finds one ends its
// job (see StepEngine). All are InvalidArgument, which names the field.

// Checks the numbers of a message itself, not of the messages in it: counts are at most 2^53,
// others finite.
absl::Status CheckNumbers(const google::protobuf::Message& report);

// Of a job that met the clocks are at most its steps, and the examples those of its data.
absl::Status CheckReport(const v1::JobRecord& job, const v1::RendezvousRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportProgressRequest& report);
absl::Status CheckReport(const v1::JobRecord& job, const v1::ReportEvaluationRequest& report);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_REPORT_CHECKS_H_
