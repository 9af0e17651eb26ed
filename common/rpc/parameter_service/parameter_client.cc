#include "common/rpc/parameter_service/parameter_client.h"

#include <utility>

#include "proto/parameter_service.pb.h"

namespace muster {

void ParameterClient::CallInto(v1::ExchangeRequest request, Payload payload,
                               absl::Span<std::byte> landing, Done done) {
  Call(std::move(request), std::move(payload), CopyInto(landing, std::move(done)));
}

ParameterClient::Done CopyInto(absl::Span<std::byte> landing, ParameterClient::Done done) {
  if (landing.empty()) return done;
  return [landing, done = std::move(done)](absl::StatusOr<ExchangeResult> result) {
    if (result.ok() && result->payload.size() == landing.size()) {
      result->payload.CopyTo(landing.data());
      result->payload = Payload({Payload::Span(landing)}, nullptr);
    }
    done(std::move(result));
  };
}

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
