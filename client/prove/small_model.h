#ifndef MUSTER_CLIENT_PROVE_SMALL_MODEL_H_
#define MUSTER_CLIENT_PROVE_SMALL_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace muster {

// Makes a job's transformer small, with everything else that its mesh divides: few layers, but one
// for each virtual stage; few heads and experts, but as many for each rank; narrow layers, short
// sequences, a small batch. Kinds of layers, axes, road and data stay. Returns what was changed,
// for people. InvalidArgument: the model is no transformer. REQUIRES: a valid job with its
// defaults.
absl::StatusOr<std::string> MakeSmall(v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_CLIENT_PROVE_SMALL_MODEL_H_
