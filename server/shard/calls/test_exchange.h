#ifndef MUSTER_SERVER_SHARD_CALLS_TEST_EXCHANGE_H_
#define MUSTER_SERVER_SHARD_CALLS_TEST_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/payload.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/calls/partition_host.h"

namespace muster {

// Returns the request that opens a small job for tests: "job", generation 1; one tensor "w" of 8
// elements that start at 1, in two blocks of 4; one sparse table "rows" of dim 2 whose rows start
// at 0.5; SGD with rate 1; one partition; BSP.
v1::OpenTablesRequest TestOpenRequest(uint32_t slots);

// Returns a request of that job to partition 0, by a slot's first incarnation, without operation.
v1::ExchangeRequest TestRequest(uint32_t slot, uint64_t clock);
v1::ExchangeRequest TestDensePush(uint32_t slot, uint64_t clock, uint32_t first_block,
                                  uint32_t blocks);
// Returns a push of 1 example to table 1.
v1::ExchangeRequest TestSparsePush(uint32_t slot, uint64_t clock, uint32_t chunk, uint64_t rows);
// Returns a close of 1 example, with all dense blocks in and `chunks` chunks of table 1.
v1::ExchangeRequest TestClose(uint32_t slot, uint64_t clock, uint32_t chunks);
// Returns such a close of a slot that would go on with a loss scale of 1024, found `clock` + 1
// steps ago, or of 512, found now.
v1::ExchangeRequest TestCloseWithScale(uint32_t slot, uint64_t clock, uint32_t chunks,
                                       bool overflowed);
v1::ExchangeRequest TestDensePull(uint32_t slot, uint64_t clock, uint32_t first_block,
                                  uint32_t blocks);
v1::ExchangeRequest TestSparsePull(uint32_t slot, uint64_t clock, uint64_t rows);
v1::ExchangeRequest TestCut(uint32_t slot, uint64_t clock);
// Returns a slot's entry in a clock of a job with backup workers.
v1::ExchangeRequest TestEnter(uint32_t slot, uint64_t clock);
// Returns a clip exchange with or without a scale.
v1::ExchangeRequest TestClip(uint32_t slot, uint64_t clock, std::optional<double> scale);

Payload Floats(std::vector<float> values);
Payload KeysAndRows(absl::Span<const uint64_t> keys, absl::Span<const float> rows);

// The answer to a call, once it has come. One thread at a time may use it.
class TestAnswer {
 public:
  bool arrived() const { return state_->reply.has_value(); }
  // REQUIRES: arrived().
  const v1::ExchangeReply& reply() const { return *state_->reply; }
  absl::StatusCode code() const { return static_cast<absl::StatusCode>(reply().code()); }
  std::vector<float> floats() const;
  std::vector<double> doubles() const;

 private:
  friend ExchangeCall MakeTestCall(v1::ExchangeRequest request, Payload payload,
                                   TestAnswer& answer);

  struct State {
    std::optional<v1::ExchangeReply> reply;
    Payload payload;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Returns a call whose answer goes to `answer`, which may be gone by then.
ExchangeCall MakeTestCall(v1::ExchangeRequest request, Payload payload, TestAnswer& answer);

}  // namespace muster

#endif  // MUSTER_SERVER_SHARD_CALLS_TEST_EXCHANGE_H_
