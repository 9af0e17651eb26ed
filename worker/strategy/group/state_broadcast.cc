#include "worker/strategy/group/state_broadcast.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/status_macros.h"

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
      CollectiveCall call;
      call.kind = options_.kind;
      call.dtype = DType::kUint8;
      call.in = at + done;
      call.out = at + done;
      call.count = std::min(kCallBytes, bytes - done);
      call.root = options_.peer;
      call.timeout = options_.timeout;
      call.label = label;
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

// A row as it travels: its key, steps and last use, then its values.
struct RowHead {
  uint64_t key;
  uint32_t steps;
  uint32_t last_use;
};

void PackRow(const SparseTable::Row& row, size_t values_bytes, std::byte* to) {
  const RowHead head = {row.key, row.steps, row.last_use};
  std::memcpy(to, &head, sizeof(head));
  std::memcpy(to + sizeof(head), row.values(), values_bytes);
}

void LoadRow(const std::byte* from, size_t values_bytes, SparseTable& table) {
  RowHead head;
  std::memcpy(&head, from, sizeof(head));
  SparseTable::Row& row = table.Load(head.key);
  row.steps = head.steps;
  row.last_use = head.last_use;
  std::memcpy(row.values(), from + sizeof(head), values_bytes);
}

enum class Role { kSends, kTakes, kHasThem };

absl::Status BroadcastRows(const Mover& mover, Role role, uint64_t count, SparseTable& table) {
  const size_t values_bytes = table.width() * sizeof(float);
  const size_t row_bytes = sizeof(RowHead) + values_bytes;
  const size_t rows_per_call = std::max<size_t>(1, kCallBytes / row_bytes);
  const std::vector<const SparseTable::Row*> rows =
      role == Role::kSends ? table.Sorted() : std::vector<const SparseTable::Row*>();
  std::vector<std::byte> buffer(std::min<uint64_t>(rows_per_call, count) * row_bytes);
  for (uint64_t first = 0; first < count; first += rows_per_call) {
    const size_t n = std::min<uint64_t>(rows_per_call, count - first);
    if (role == Role::kSends) {
      for (size_t i = 0; i < n; ++i)
        PackRow(*rows[first + i], values_bytes, &buffer[i * row_bytes]);
    }
    MUSTER_RETURN_IF_ERROR(mover.Run(buffer.data(), n * row_bytes, "rows of the state"));
    if (role == Role::kTakes) {
      for (size_t i = 0; i < n; ++i) LoadRow(&buffer[i * row_bytes], values_bytes, table);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BroadcastState(Communicator& communicator, int source, absl::Duration timeout,
                            ShardState& state, StateContent& content) {
  const Mover mover(communicator, {.peer = source, .timeout = timeout});
  const size_t tables = state.tables().sparse.size();
  // The clock, then each table's number of rows.
  std::vector<uint64_t> head = {state.clock()};
  for (const SparseTable& table : state.state().rows) head.push_back(table.rows());
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(head), "head of the state"));

  const bool has_them = content == StateContent::kWhole && head[0] == state.clock();
  const Role role = communicator.rank() == source ? Role::kSends
                    : has_them                    ? Role::kHasThem
                                                  : Role::kTakes;
  if (role == Role::kTakes) {
    content = StateContent::kNothing;
    state.ClearRows();
  }
  // Who has them already receives the bits that are there.
  const ShardState::State held = state.state();
  MUSTER_RETURN_IF_ERROR(MoveDense(mover, held));
  for (size_t i = 0; i < tables; ++i) {
    MUSTER_RETURN_IF_ERROR(BroadcastRows(mover, role, head[1 + i], held.rows[i]));
  }
  state.set_clock(head[0]);
  content = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status SendState(Communicator& communicator, int to, absl::Duration timeout,
                       ShardState& state) {
  const Mover mover(communicator, {Collective::kSend, to, timeout});
  uint64_t clock = state.clock();
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(&clock, 1), "head of the state"));
  const absl::Status status = MoveDense(mover, state.state());
  state.UnmapState();
  return status;
}

absl::Status ReceiveState(Communicator& communicator, int from, absl::Duration timeout,
                          ShardState& state) {
  const Mover mover(communicator, {Collective::kReceive, from, timeout});
  uint64_t clock = 0;
  MUSTER_RETURN_IF_ERROR(mover.Run(absl::MakeSpan(&clock, 1), "head of the state"));
  const absl::Status status = MoveDense(mover, state.state());
  state.UnmapState();
  MUSTER_RETURN_IF_ERROR(status);
  state.set_clock(clock);
  return absl::OkStatus();
}

absl::Status BroadcastWeights(Communicator& communicator, int source, absl::Duration timeout,
                              ShardState& state) {
  const Mover mover(communicator, {.peer = source, .timeout = timeout});
  return mover.Run(state.state().weights, "initial weights");
}

}  // namespace muster
