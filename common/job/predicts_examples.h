#ifndef MUSTER_COMMON_JOB_PREDICTS_EXAMPLES_H_
#define MUSTER_COMMON_JOB_PREDICTS_EXAMPLES_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Checks that a job's model predicts labels of examples that files can hold. `job` is the job in a
// message, such as "job j1-4f2a". InvalidArgument: it is a model of language, a program, or learns
// from synthetic data (says what to do instead).
absl::Status CheckPredictsExamples(const v1::JobSpec& spec, absl::string_view job);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_PREDICTS_EXAMPLES_H_
