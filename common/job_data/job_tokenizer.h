#ifndef MUSTER_COMMON_JOB_DATA_JOB_TOKENIZER_H_
#define MUSTER_COMMON_JOB_DATA_JOB_TOKENIZER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace muster {

namespace v1 {
class DataSpec;
}  // namespace v1

// Returns the tokenizer of a job's sequences, read from where the job says, on this machine.
// NotFound: it is not here. InvalidArgument: it is damaged or of a newer format.
absl::StatusOr<std::unique_ptr<const Tokenizer>> JobTokenizer(const v1::DataSpec& data);

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_DATA_JOB_TOKENIZER_H_
