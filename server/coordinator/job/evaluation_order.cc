#include "server/coordinator/job/evaluation_order.h"

#include <cmath>

#include "common/eval/metric.h"
#include "proto/status.pb.h"

namespace muster {

bool IsBetter(const v1::EvaluationResult& result, const v1::EvaluationResult* best) {
  if (!result.no_value().empty() || std::isnan(result.value())) return false;
  if (best == nullptr) return true;
  return HigherIsBetter(result.metric()) ? result.value() > best->value()
                                         : result.value() < best->value();
}

}  // namespace muster
