#ifndef MUSTER_SERVER_COORDINATOR_JOB_CONFUSION_CHECKS_H_
#define MUSTER_SERVER_COORDINATOR_JOB_CONFUSION_CHECKS_H_

#include "absl/status/status.h"
#include "proto/task_service.pb.h"

namespace muster {

// Checks a slot's confusion matrix. InvalidArgument, which says what is wrong: it has not as many
// labels and counts as its classes need, a label is too long, or the counts are not those of the
// share's examples, of which the diagonal has the correct ones. OK without a matrix.
absl::Status CheckConfusion(const v1::ReportEvaluationRequest& share);

// Checks that two slots' matrices can be added. InvalidArgument, naming slots and values: they are
// of other classes, or one slot has none.
absl::Status CheckSameClasses(const v1::ReportEvaluationRequest& a,
                              const v1::ReportEvaluationRequest& b);

// Adds a slot's counts to those of others, or to an empty message. REQUIRES: CheckSameClasses.
void AddConfusion(const v1::Confusion& share, v1::Confusion& sum);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_JOB_CONFUSION_CHECKS_H_
