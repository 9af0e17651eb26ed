#include "server/shard/calls/test_exchange.h"

#include <cstring>
#include <utility>

namespace muster {
namespace {

template <typename T>
std::vector<T> Elements(const Payload& payload) {
  std::vector<T> values(payload.size() / sizeof(T));
  payload.CopyTo(values.data());
  return values;
}

}  // namespace

v1::OpenTablesRequest TestOpenRequest(uint32_t slots) {
  v1::OpenTablesRequest request;
  request.set_job_id("job");
  request.set_generation(1);
  request.set_slots(slots);
  v1::TablesSchema& schema = *request.mutable_schema();
  v1::TensorSchema& tensor = *schema.add_tensors();
  tensor.set_name("w");
  tensor.add_shape(8);
  tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  tensor.mutable_initializer()->set_value(1);
  v1::SparseTableSchema& table = *schema.add_sparse();
  table.set_name("rows");
  table.set_dim(2);
  table.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
  table.mutable_initializer()->set_value(0.5);
  schema.set_partitions(1);
  schema.set_block_bytes(16);
  schema.mutable_optimizer()->set_name("sgd");
  schema.mutable_optimizer()->set_learning_rate(1);
  schema.set_seed(7);
  schema.set_total_steps(100);
  request.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
  request.add_partitions()->set_partition(0);
  request.set_checkpoint_root("/checkpoints");
  return request;
}

v1::ExchangeRequest TestRequest(uint32_t slot, uint64_t clock) {
  v1::ExchangeRequest request;
  request.set_request_id(slot * 1000 + clock);
  request.set_job_id("job");
  request.set_generation(1);
  request.set_slot(slot);
  request.set_incarnation(1);
  request.set_clock(clock);
  return request;
}

v1::ExchangeRequest TestDensePush(uint32_t slot, uint64_t clock, uint32_t first_block,
                                  uint32_t blocks) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_dense_push()->set_first_block(first_block);
  request.mutable_dense_push()->set_blocks(blocks);
  request.mutable_dense_push()->set_examples(1);
  return request;
}

v1::ExchangeRequest TestSparsePush(uint32_t slot, uint64_t clock, uint32_t chunk, uint64_t rows) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_sparse_push()->set_table(1);
  request.mutable_sparse_push()->set_chunk(chunk);
  request.mutable_sparse_push()->set_rows(rows);
  request.mutable_sparse_push()->set_examples(1);
  return request;
}

v1::ExchangeRequest TestClose(uint32_t slot, uint64_t clock, uint32_t chunks) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_close()->set_examples(1);
  request.mutable_close()->add_sparse_chunks(chunks);
  return request;
}

v1::ExchangeRequest TestCloseWithScale(uint32_t slot, uint64_t clock, uint32_t chunks,
                                       bool overflowed) {
  v1::ExchangeRequest request = TestClose(slot, clock, chunks);
  v1::ClosingLossScale& word = *request.mutable_close()->mutable_loss_scale();
  word.set_overflowed(overflowed);
  word.mutable_if_finite()->set_scale(1024);
  word.mutable_if_finite()->set_steps(static_cast<uint32_t>(clock + 1));
  word.mutable_if_overflowed()->set_scale(512);
  return request;
}

v1::ExchangeRequest TestDensePull(uint32_t slot, uint64_t clock, uint32_t first_block,
                                  uint32_t blocks) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_dense_pull()->set_first_block(first_block);
  request.mutable_dense_pull()->set_blocks(blocks);
  return request;
}

v1::ExchangeRequest TestSparsePull(uint32_t slot, uint64_t clock, uint64_t rows) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_sparse_pull()->set_table(1);
  request.mutable_sparse_pull()->set_rows(rows);
  return request;
}

v1::ExchangeRequest TestCut(uint32_t slot, uint64_t clock) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_cut();
  return request;
}

v1::ExchangeRequest TestEnter(uint32_t slot, uint64_t clock) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_enter();
  return request;
}

v1::ExchangeRequest TestClip(uint32_t slot, uint64_t clock, std::optional<double> scale) {
  v1::ExchangeRequest request = TestRequest(slot, clock);
  request.mutable_clip();
  if (scale.has_value()) request.mutable_clip()->set_scale(*scale);
  return request;
}

Payload Floats(std::vector<float> values) { return Payload::Of(std::move(values)); }

Payload KeysAndRows(absl::Span<const uint64_t> keys, absl::Span<const float> rows) {
  std::vector<std::byte> bytes(keys.size() * sizeof(uint64_t) + rows.size() * sizeof(float));
  std::memcpy(bytes.data(), keys.data(), keys.size() * sizeof(uint64_t));
  if (!rows.empty()) {
    std::memcpy(bytes.data() + keys.size() * sizeof(uint64_t), rows.data(),
                rows.size() * sizeof(float));
  }
  return Payload::Of(std::move(bytes));
}

std::vector<float> TestAnswer::floats() const { return Elements<float>(state_->payload); }
std::vector<double> TestAnswer::doubles() const { return Elements<double>(state_->payload); }

ExchangeCall MakeTestCall(v1::ExchangeRequest request, Payload payload, TestAnswer& answer) {
  ExchangeCall call;
  call.request = std::make_shared<v1::ExchangeRequest>(std::move(request));
  call.payload = std::move(payload);
  call.done = [state = answer.state_](v1::ExchangeReply reply, Payload bytes) {
    state->reply = std::move(reply);
    state->payload = std::move(bytes);
  };
  return call;
}

}  // namespace muster
