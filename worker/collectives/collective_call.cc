#include "worker/collectives/collective_call.h"

namespace muster {

const char* Name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kAvg:
      return "avg";
    case Reduction::kMin:
      return "min";
    case Reduction::kMax:
      return "max";
    case Reduction::kProd:
      return "prod";
    case Reduction::kBitAnd:
      return "band";
    case Reduction::kBitOr:
      return "bor";
    case Reduction::kBitXor:
      return "bxor";
  }
  return "unknown reduction";
}

}  // namespace muster
