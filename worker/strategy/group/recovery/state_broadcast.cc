#include "worker/strategy/group/recovery/state_broadcast.h"

#include <algorithm>
#include <vector>

#include "common/base/status_macros.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/recovery/packed_rows.h"

namespace muster {
namespace {

constexpr size_t kCallBytes = size_t{64} << 20;

// Broadcasts in place from one rank, or sends to or receives from one rank.
class Mover {
 public:
  struct Options {
    Collective kind = Collective::kBroadcast;
    int peer = 0;
    absl::Duration timeout;
  };

  Mover(Communicator& communicator, const Options& options)
      : communicator_(communicator), options_(options) {}

  absl::Status Run(void* data, size_t bytes, absl::string_view label) const {
    std::byte* at = static_cast<std::byte*>(data);
    for (size_t done = 0; done < bytes; done += kCallBytes) {
      CollectiveCall call =
          ArrayCall<std::byte>(options_.kind, {at + done, std::min(kCallBytes, bytes - done)},
                               at + done, options_.timeout, label);
      call.root = options_.peer;
      MUSTER_RETURN_IF_ERROR(communicator_.Run(call));
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Run(absl::Span<T> values, absl::string_view label) const {
    return Run(values.data(), values.size() * sizeof(T), label);
  }

 private:
  Communicator& communicator_;
  const Options options_;
};

// Moves everything except rows.
absl::Status MoveDense(const Mover& mover, const ShardState::State& state) {
  MUSTER_RETURN_IF_ERROR(mover.Run(state.weights, "weights of the state"));
  MUSTER_RETURN_IF_ERROR(mover.Run(state.optimizer_state, "optimizer state"));
  return mover.Run(state.steps, "steps of the state");
}

enum class Role { kSends, kTakes, kHasThem };

absl::Status MoveTable(const Mover& mover, Role role, uint64_t count, SparseTable& table) {
  const size_t row_bytes = PackedRowBytes(table);
  const size_t rows_per_call = std::max<size_t>(1, kCallBytes / row_bytes);
  const std::vector<const SparseTable::Row*> rows =
      role == Role::kSends ? table.Sorted() : std::vector<const SparseTable::Row*>();
  std::vector<std::byte> buffer(std::min<uint64_t>(rows_per_call, count) * row_bytes);
  for (uint64_t first = 0; first < count; first += rows_per_call) {
    const size_t n = std::min<uint64_t>(rows_per_call, count - first);
    if (role == Role::kSends) {
      for (size_t i = 0; i < n; ++i) PackRow(table, *rows[first + i], &buffer[i * row_bytes]);
    }
    MUSTER_RETURN_IF_ERROR(mover.Run(buffer.data(), n * row_bytes, "rows of the state"));
    if (role == Role::kTakes) {
      for (size_t i = 0; i < n; ++i) LoadRow(&buffer[i * row_bytes], table);
    }
  }
  return absl::OkStatus();
}

// Returns a state's clock, then each table's number of rows.
std::vector<uint64_t> HeadOf(ShardState& state) {
  std::vector<uint64_t> head = {state.clock()};
  for (const SparseTable& table : state.rows()) head.push_back(table.rows());
  return head;
}

// Moves everything after the head.
absl::Status MoveBody(const Mover& mover, Role role, absl::Span<const uint64_t> head,
                      ShardState& state) {
  if (role == Role::kTakes) state.ClearRows();
  // Who has them already receives the bits that are there.
  const ShardState::State held = state.state();
  MUSTER_RETURN_IF_ERROR(MoveDense(mover, held));
  for (size_t i = 0; i < held.rows.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(MoveTable(mover, role, head[1 + i], held.rows[i]));
  }
  state.set_clock(head[0]);
  return absl::OkStatus();
}

}  // namespace

absl::Status BroadcastState(Communicator& communicator, int source, absl::Duration timeout,
                            ShardState& state, StateContent& content) {
  const Mover mover(communicator, {.peer = source, .timeout = timeout});
  std::vector<uint64_t> head = HeadOf(state);
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(head), "head of the state"));
  const bool has_them = content == StateContent::kWhole && head[0] == state.clock();
  const Role role = communicator.rank() == source ? Role::kSends
                    : has_them                    ? Role::kHasThem
                                                  : Role::kTakes;
  if (role == Role::kTakes) content = StateContent::kNothing;
  MUSTER_RETURN_IF_ERROR(MoveBody(mover, role, head, state));
  content = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status SendState(Communicator& communicator, int to, absl::Duration timeout,
                       ShardState& state) {
  const Mover mover(communicator, {Collective::kSend, to, timeout});
  std::vector<uint64_t> head = HeadOf(state);
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(head), "head of the state"));
  const absl::Status status = MoveBody(mover, Role::kSends, head, state);
  state.UnmapState();
  return status;
}

absl::Status ReceiveState(Communicator& communicator, int from, absl::Duration timeout,
                          ShardState& state) {
  const Mover mover(communicator, {Collective::kReceive, from, timeout});
  std::vector<uint64_t> head = HeadOf(state);
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(head), "head of the state"));
  const absl::Status status = MoveBody(mover, Role::kTakes, head, state);
  state.UnmapState();
  return status;
}

absl::Status BroadcastWeights(Communicator& communicator, int source, absl::Duration timeout,
                              bool of_experts, ShardState& state) {
  const Mover mover(communicator, {.peer = source, .timeout = timeout});
  const absl::Span<float> weights = state.state().weights;
  const absl::Span<const ShardLayout::Part> parts = state.shard_layout().parts();
  for (size_t i = 0; i < parts.size();) {
    const uint64_t begin = parts[i].slice_begin;
    uint64_t end = begin;
    for (; i < parts.size() && parts[i].experts == of_experts; ++i) end += parts[i].slice;
    for (; i < parts.size() && parts[i].experts != of_experts; ++i) {
    }
    MUSTER_RETURN_IF_ERROR(mover.Run(weights.subspan(begin, end - begin), "initial weights"));
  }
  return absl::OkStatus();
}

}  // namespace muster
