#ifndef MUSTER_SERVER_SHARD_TABLES_RATE_FACTOR_H_
#define MUSTER_SERVER_SHARD_TABLES_RATE_FACTOR_H_

#include "proto/parameter_service.pb.h"

namespace muster {

// Returns what a push or a close says that the scheduled learning rate is multiplied by at its
// clock.
inline double RateFactorOf(const v1::ExchangeRequest& request) {
  return request.rate_factor() == 0 ? 1 : request.rate_factor();
}

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_TABLES_RATE_FACTOR_H_
