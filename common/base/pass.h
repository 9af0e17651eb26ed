#ifndef MUSTER_COMMON_BASE_PASS_H_
#define MUSTER_COMMON_BASE_PASS_H_

namespace muster {

// The purpose of a pass through a model. kTraining applies dropout and keeps what backward reads;
// kEvaluation does neither.
enum class Pass { kTraining, kEvaluation };

}  // namespace muster

#endif  // MUSTER_COMMON_BASE_PASS_H_
