#include "common/rpc/parameter_client.h"

#include <utility>

#include "proto/parameter_service.pb.h"

namespace muster {

std::shared_ptr<Pending<ExchangeResult>> StartExchange(ParameterClient& client,
                                                       v1::ExchangeRequest request,
                                                       Payload payload) {
  auto pending = std::make_shared<Pending<ExchangeResult>>();
  client.Call(
      std::move(request), std::move(payload),
      [pending](absl::StatusOr<ExchangeResult> result) { pending->Finish(std::move(result)); });
  return pending;
}

}  // namespace muster
