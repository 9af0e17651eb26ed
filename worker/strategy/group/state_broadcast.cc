#include "worker/strategy/group/state_broadcast.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kCallBytes = size_t{64} << 20;

// Broadcasts from one rank, in place.
class Broadcaster {
 public:
  Broadcaster(Communicator& communicator, int source, absl::Duration timeout)
      : communicator_(communicator), source_(source), timeout_(timeout) {}

  absl::Status Run(void* data, size_t bytes, absl::string_view label) const {
    std::byte* at = static_cast<std::byte*>(data);
    for (size_t done = 0; done < bytes; done += kCallBytes) {
      CollectiveCall call;
      call.kind = Collective::kBroadcast;
      call.dtype = DType::kUint8;
      call.in = at + done;
      call.out = at + done;
      call.count = std::min(kCallBytes, bytes - done);
      call.root = source_;
      call.timeout = timeout_;
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
  const int source_;
  const absl::Duration timeout_;
};

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

absl::Status BroadcastRows(const Broadcaster& broadcaster, Role role, uint64_t count,
                           SparseTable& table) {
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
    MUSTER_RETURN_IF_ERROR(broadcaster.Run(buffer.data(), n * row_bytes, "rows of the state"));
    if (role == Role::kTakes) {
      for (size_t i = 0; i < n; ++i) LoadRow(&buffer[i * row_bytes], values_bytes, table);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BroadcastState(Communicator& communicator, int source, absl::Duration timeout,
                            ShardState& state, StateContent& content) {
  const Broadcaster broadcaster(communicator, source, timeout);
  const size_t tables = state.tables().sparse.size();
  // The clock, then each table's number of rows.
  std::vector<uint64_t> head = {state.clock()};
  for (const SparseTable& table : state.state().rows) head.push_back(table.rows());
  MUSTER_RETURN_IF_ERROR(broadcaster.Run(absl::MakeSpan(head), "head of the state"));

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
  MUSTER_RETURN_IF_ERROR(broadcaster.Run(held.weights, "weights of the state"));
  MUSTER_RETURN_IF_ERROR(broadcaster.Run(held.optimizer_state, "optimizer state"));
  MUSTER_RETURN_IF_ERROR(broadcaster.Run(held.steps, "steps of the state"));
  for (size_t i = 0; i < tables; ++i) {
    MUSTER_RETURN_IF_ERROR(BroadcastRows(broadcaster, role, head[1 + i], held.rows[i]));
  }
  state.set_clock(head[0]);
  content = StateContent::kWhole;
  return absl::OkStatus();
}

absl::Status BroadcastWeights(Communicator& communicator, int source, absl::Duration timeout,
                              ShardState& state) {
  return Broadcaster(communicator, source, timeout).Run(state.state().weights, "initial weights");
}

}  // namespace muster
