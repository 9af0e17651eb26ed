#include "worker/strategy/group/recovery/resharding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/partition/dense_layout.h"
#include "common/partition/shard_layout.h"
#include "common/tables/sparse_table.h"
#include "common/tensor/dtype.h"
#include "worker/strategy/group/exchange/array_calls.h"
#include "worker/strategy/group/exchange/array_exchange.h"
#include "worker/strategy/group/recovery/packed_rows.h"

namespace muster {
namespace {

// The values of a shard: its weights and the arrays of its optimizer state, block by block.
class Values {
 public:
  explicit Values(ShardState& shard)
      : state_(shard.state()),
        arrays_(state_.optimizer_state.size() /
                std::max<size_t>(1, shard.trained_shards().slice_elements())) {}

  // Returns the number of floats of a trained element: its weight and its optimizer state; and that
  // of an element of the block, which has no state if it is frozen.
  size_t floats() const { return 1 + arrays_; }
  size_t FloatsOf(const DenseLayout::Block& block) const { return block.frozen ? 1 : floats(); }

  // Returns the first of the elements of a block, in the weights (0) or in an array of optimizer
  // state (from 1 on).
  float* Of(const ShardLayout::OwnedBlock& owned, size_t array) const {
    if (array == 0) return state_.weights.data() + owned.slice_begin;
    return state_.optimizer_state.data() + owned.slice_begin * arrays_ +
           (array - 1) * owned.block.elements();
  }

  absl::Span<uint64_t> steps() const { return state_.steps; }

 private:
  const ShardState::State state_;
  const size_t arrays_;
};

// Elements [begin, end) of the flat space, in one block of the former shard.
struct Piece {
  // The block's position among those of the former shard.
  size_t block = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  size_t elements() const { return end - begin; }
};

// Divides the blocks into calls of at most so many elements.
std::vector<std::vector<Piece>> MakeCalls(absl::Span<const ShardLayout::OwnedBlock> blocks,
                                          size_t most) {
  std::vector<std::vector<Piece>> calls;
  size_t left = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const DenseLayout::Block& block = blocks[i].block;
    for (uint64_t begin = block.begin; begin < block.end;) {
      if (left == 0) {
        calls.emplace_back();
        left = most;
      }
      const uint64_t end = std::min<uint64_t>(block.end, begin + left);
      calls.back().push_back({i, begin, end});
      left -= end - begin;
      begin = end;
    }
  }
  return calls;
}

// Copies a piece's floats, which are weights and then arrays of state, to where the new shard has
// the elements.
void TakePiece(const Piece& piece, const float* from, uint64_t steps,
               absl::Span<const ShardLayout::OwnedBlock> owned, const Values& to) {
  const auto first = std::upper_bound(
      owned.begin(), owned.end(), piece.begin,
      [](uint64_t at, const ShardLayout::OwnedBlock& block) { return at < block.block.end; });
  for (auto it = first; it != owned.end() && it->block.begin < piece.end; ++it) {
    const uint64_t begin = std::max(piece.begin, it->block.begin);
    const uint64_t end = std::min(piece.end, it->block.end);
    for (size_t array = 0; array < to.FloatsOf(it->block); ++array) {
      const float* const values = from + array * piece.elements();
      std::copy(values + (begin - piece.begin), values + (end - piece.begin),
                to.Of(*it, array) + (begin - it->block.begin));
    }
    uint64_t& seen = to.steps()[it - owned.begin()];
    seen = std::max(seen, steps);
  }
}

// Sends rows to the ranks that own them in `owners`' division, and loads those that come. `rows`
// are some of the table that this rank sends.
absl::Status DealRows(Communicator& world, absl::Span<const SparseTable::Row* const> rows,
                      absl::Duration timeout, const ShardState& owners, SparseTable& to) {
  const size_t ranks = world.size();
  const size_t row_bytes = PackedRowBytes(to);
  std::vector<int64_t> sent(ranks), received;
  for (const SparseTable::Row* row : rows) ++sent[owners.OwnerOf(row->key)];
  const ArrayExchange exchange = {world, timeout};
  MUSTER_RETURN_IF_ERROR(exchange.Numbers(sent, received, "numbers of former rows"));

  std::vector<size_t> send_counts(ranks), counts(ranks), next(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) {
    send_counts[rank] = sent[rank] * row_bytes;
    counts[rank] = received[rank] * row_bytes;
    next[rank] = rank == 0 ? 0 : next[rank - 1] + send_counts[rank - 1];
  }
  std::vector<std::byte> out(rows.size() * row_bytes), in;
  for (const SparseTable::Row* row : rows) {
    size_t& at = next[owners.OwnerOf(row->key)];
    PackRow(to, *row, out.data() + at);
    at += row_bytes;
  }
  MUSTER_RETURN_IF_ERROR(exchange.Arrays(out, send_counts, in, counts, "former rows"));
  for (size_t at = 0; at < in.size(); at += row_bytes) LoadRow(in.data() + at, to);
  return absl::OkStatus();
}

}  // namespace

absl::Status SendFormerShard(Communicator& world, int root, const FormerShard& former,
                             ShardState* source, const ReshardingOptions& options, ShardState& to) {
  const std::vector<ShardLayout::OwnedBlock> blocks =
      ShardLayout(former.layout, Holders(former.shard.mesh))
          .OwnedBlocks(former.layout, former.shard.at(kHolderAxes));
  if (blocks.empty()) return absl::OkStatus();
  std::vector<uint64_t> steps(blocks.size());
  if (source != nullptr) {
    const absl::Span<const uint64_t> seen = source->state().steps;
    std::copy(seen.begin(), seen.end(), steps.begin());
  }
  MUSTER_RETURN_IF_ERROR(
      world.Run(Broadcast(root, absl::MakeSpan(steps), options.timeout, "former shards")));

  const Values values(to);
  const size_t most = std::max<size_t>(1, options.call_bytes / (values.floats() * sizeof(float)));
  std::vector<float> buffer;
  for (const std::vector<Piece>& call : MakeCalls(blocks, most)) {
    size_t floats = 0;
    for (const Piece& piece : call) {
      floats += piece.elements() * values.FloatsOf(blocks[piece.block].block);
    }
    buffer.resize(floats);
    if (source != nullptr) {
      const Values sent(*source);
      float* next = buffer.data();
      for (const Piece& piece : call) {
        const ShardLayout::OwnedBlock& owned = blocks[piece.block];
        for (size_t array = 0; array < sent.FloatsOf(owned.block); ++array) {
          const float* const from = sent.Of(owned, array) + (piece.begin - owned.block.begin);
          next = std::copy(from, from + piece.elements(), next);
        }
      }
      source->UnmapState();
    }
    MUSTER_RETURN_IF_ERROR(
        world.Run(Broadcast(root, absl::MakeSpan(buffer), options.timeout, "former shards")));
    if (former.shard.at(kPartAxes) != to.shard().at(kPartAxes)) continue;
    const float* next = buffer.data();
    for (const Piece& piece : call) {
      TakePiece(piece, next, steps[piece.block], to.owned_blocks(), values);
      next += piece.elements() * values.FloatsOf(blocks[piece.block].block);
    }
    to.UnmapState();
  }
  return absl::OkStatus();
}

absl::Status SendFormerRows(Communicator& world, absl::Span<ShardState* const> former,
                            const ReshardingOptions& options, ShardState& to) {
  const size_t tables = to.tables().sparse.size();
  if (tables == 0) return absl::OkStatus();
  const size_t ranks = world.size();
  std::vector<int64_t> numbers(tables);
  for (ShardState* shard : former) {
    for (size_t table = 0; table < tables; ++table) {
      numbers[table] += static_cast<int64_t>(shard->rows()[table].rows());
    }
  }
  CollectiveCall most = Sum(absl::MakeSpan(numbers), options.timeout, "most former rows of a rank");
  most.reduction = Reduction::kMax;
  MUSTER_RETURN_IF_ERROR(world.Run(most));

  for (size_t table = 0; table < tables; ++table) {
    SparseTable& rows = to.state().rows[table];
    // One rank may own what all send.
    const size_t in_call = std::max<size_t>(1, options.call_bytes / ranks / PackedRowBytes(rows));
    std::vector<const SparseTable::Row*> sent;
    for (ShardState* shard : former) {
      const std::vector<const SparseTable::Row*> more = shard->rows()[table].Sorted();
      sent.insert(sent.end(), more.begin(), more.end());
    }
    const absl::Span<const SparseTable::Row* const> all(sent);
    for (size_t first = 0; first < static_cast<size_t>(numbers[table]); first += in_call) {
      MUSTER_RETURN_IF_ERROR(DealRows(world, all.subspan(std::min(first, all.size()), in_call),
                                      options.timeout, to, rows));
    }
  }
  return absl::OkStatus();
}

}  // namespace muster
