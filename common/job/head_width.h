#ifndef MUSTER_COMMON_JOB_HEAD_WIDTH_H_
#define MUSTER_COMMON_JOB_HEAD_WIDTH_H_

#include <algorithm>
#include <cstdint>

#include "proto/job.pb.h"

namespace muster {

// Returns the width of an attention head, which may be left out. All heads together need not be as
// wide as the model.
inline uint32_t HeadWidth(const v1::TransformerSpec& spec) {
  return spec.head_width() > 0 ? spec.head_width() : spec.width() / std::max(1u, spec.heads());
}

}  // namespace muster

#endif  // MUSTER_COMMON_JOB_HEAD_WIDTH_H_
