#include "worker/collectives/collective_call.h"

namespace muster {

const char* Name(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return "all_reduce";
    case Collective::kReduceScatter:
      return "reduce_scatter";
    case Collective::kAllGather:
      return "all_gather";
    case Collective::kBroadcast:
      return "broadcast";
    case Collective::kReduce:
      return "reduce";
    case Collective::kAllToAll:
      return "all_to_all";
    case Collective::kSend:
      return "send";
    case Collective::kReceive:
      return "receive";
    case Collective::kBarrier:
      return "barrier";
  }
  return "unknown collective";
}

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
