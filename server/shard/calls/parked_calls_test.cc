#include "server/shard/calls/parked_calls.h"

#include <gtest/gtest.h>

#include "server/shard/calls/test_exchange.h"

namespace muster {
namespace {

AdmittedCall Call(uint64_t id, std::shared_ptr<std::atomic<bool>> cancelled = nullptr) {
  v1::ExchangeRequest request;
  request.set_request_id(id);
  AdmittedCall call;
  call.call.request = std::make_shared<v1::ExchangeRequest>(request);
  call.call.payload = Floats({1, 2});
  call.call.cancelled = std::move(cancelled);
  return call;
}

TEST(ParkedCallsTest, ReleasesByNeedThenByArrival) {
  ParkedCalls parked;
  parked.Park(3, Call(1));
  parked.Park(2, Call(2));
  parked.Park(2, Call(3));
  EXPECT_EQ(parked.bytes(), 3 * (kCallBytes + 8));
  EXPECT_FALSE(parked.TakeReady(1).has_value());
  EXPECT_EQ(parked.TakeReady(2)->call.request->request_id(), 2u);
  EXPECT_EQ(parked.TakeReady(2)->call.request->request_id(), 3u);
  EXPECT_FALSE(parked.TakeReady(2).has_value());
  EXPECT_EQ(parked.TakeAny()->call.request->request_id(), 1u);
  EXPECT_FALSE(parked.TakeAny().has_value());
  EXPECT_EQ(parked.bytes(), 0u);
}

TEST(ParkedCallsTest, DropsThoseWhoseCallerIsGone) {
  ParkedCalls parked;
  const auto gone = std::make_shared<std::atomic<bool>>(true);
  for (int i = 0; i < 1000; ++i) parked.Park(1, Call(i, gone));
  parked.Park(1, Call(1000));
  EXPECT_LT(parked.size(), 200u);
  uint64_t last = 0;
  while (const auto call = parked.TakeAny()) last = call->call.request->request_id();
  EXPECT_EQ(last, 1000u);
}

}  // namespace
}  // namespace muster
