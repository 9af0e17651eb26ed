#include "worker/strategy/group/recovery/packed_rows.h"

#include <cstdint>
#include <cstring>

namespace muster {
namespace {

struct RowHead {
  uint64_t key;
  uint32_t steps;
  uint32_t last_use;
};

}  // namespace

size_t PackedRowBytes(const SparseTable& table) {
  return sizeof(RowHead) + table.width() * sizeof(float);
}

void PackRow(const SparseTable& table, const SparseTable::Row& row, std::byte* to) {
  const RowHead head = {row.key, row.steps, row.last_use};
  std::memcpy(to, &head, sizeof(head));
  std::memcpy(to + sizeof(head), row.values(), table.width() * sizeof(float));
}

void LoadRow(const std::byte* from, SparseTable& table) {
  RowHead head;
  std::memcpy(&head, from, sizeof(head));
  SparseTable::Row& row = table.Load(head.key);
  row.steps = head.steps;
  row.last_use = head.last_use;
  std::memcpy(row.values(), from + sizeof(head), table.width() * sizeof(float));
}

}  // namespace muster
