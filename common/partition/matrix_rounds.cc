#include "common/partition/matrix_rounds.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/base/status_macros.h"
#include "common/partition/local_tensors.h"
#include "common/partition/matrices.h"
#include "common/partition/schema.h"
#include "proto/schema.pb.h"

namespace muster {
namespace {

// Collects one rank's part in a round.
class RoundBuilder {
 public:
  RoundBuilder(uint32_t unit, int ranks, int rank) : rank_(rank), peers_(ranks) {
    round_.unit = unit;
    for (int i = 0; i < ranks; ++i) peers_[i].rank = i;
  }

  // Begins a matrix with this owner.
  void Begin(int64_t rows, int64_t columns, int owner) {
    owner_ = owner;
    first_ = round_.owned_elements;
    if (owner != rank_) return;
    round_.owned.push_back({rows, columns, first_});
    round_.owned_elements += static_cast<uint64_t>(rows * columns);
  }
  // Adds elements of a rank, from `first` of the matrix on, that go to the owner, or come back.
  void AddSent(int rank, uint64_t first, const HeldSeries& held) {
    if (rank == rank_) peers_[owner_].sent.push_back(held);
    if (owner_ == rank_) peers_[rank].taken.push_back({first_ + first, held.count});
  }
  void AddReturned(int rank, uint64_t first, const HeldSeries& held) {
    if (rank == rank_) peers_[owner_].returned.push_back(held);
    if (owner_ == rank_) peers_[rank].given.push_back({first_ + first, held.count});
  }

  MatrixRound Build() {
    for (MatrixPeer& peer : peers_) {
      const bool moves = !peer.sent.empty() || !peer.returned.empty() || !peer.taken.empty() ||
                         !peer.given.empty();
      if (moves) round_.peers.push_back(std::move(peer));
    }
    return std::move(round_);
  }

 private:
  const int rank_;
  MatrixRound round_;
  std::vector<MatrixPeer> peers_;
  int owner_ = 0;
  uint64_t first_ = 0;
};

}  // namespace

uint64_t MatrixDivision::Matrix::work() const {
  return static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) *
         static_cast<uint64_t>(std::min(rows, columns));
}

bool MatrixDivision::Matrix::divided() const {
  return std::any_of(held.begin(), held.end(), [](const Series& series) { return !series.whole; });
}

void MatrixDivision::Matrix::ChooseSent() {
  for (const Series& series : held) {
    if (!series.whole) continue;
    sent = {series};
    return;
  }
  std::vector<Series> all = held;
  std::stable_sort(all.begin(), all.end(), [](const Series& a, const Series& b) {
    return std::tuple(a.first, a.rank) < std::tuple(b.first, b.rank);
  });
  uint64_t done = 0;
  for (Series series : all) {
    if (series.end() <= done) continue;
    const uint64_t skipped = done - std::min(done, series.first);
    series.first += skipped;
    series.held.first += skipped;
    series.held.count -= skipped;
    done = series.end();
    sent.push_back(series);
  }
}

MatrixDivision::MatrixDivision(absl::Span<const MatrixHolder> holders)
    : ranks_(static_cast<int>(holders.size())) {
  // The key orders by unit, then by tensor and first element in it.
  std::map<uint32_t, std::map<std::pair<int, uint64_t>, Matrix>> units;
  for (int rank = 0; rank < ranks_; ++rank) {
    const MatrixHolder& holder = holders[rank];
    for (uint32_t b = 0; b < holder.blocks.size(); ++b) {
      const DenseLayout::Block& block = holder.blocks[b].block;
      if (!block.of_matrix()) continue;
      const DenseLayout::Piece& piece = block.pieces[0];
      const TensorSpec& tensor = holder.tensors[piece.tensor];
      uint64_t begin = 0;
      for (const MatrixShare& share : MatrixShares(tensor)) {
        if (share.begin <= piece.begin && piece.begin < share.end) begin = share.global_begin;
      }
      Matrix& matrix = units[block.unit][{piece.tensor, begin}];
      matrix.rows = block.rows;
      matrix.columns = block.columns;
      ForEachGlobal(tensor, piece.begin, piece.end,
                    [&](uint64_t first, uint64_t global, uint64_t count) {
                      matrix.held.push_back(
                          {.first = global - begin,
                           .rank = rank,
                           .whole = block.whole_matrix(),
                           .held = {.block = b, .first = first - piece.begin, .count = count}});
                    });
    }
  }
  for (auto& [number, matrices] : units) {
    Unit unit = {.unit = number};
    for (auto& [key, matrix] : matrices) {
      if (!matrix.divided()) continue;
      matrix.ChooseSent();
      unit.matrices.push_back(std::move(matrix));
    }
    if (unit.matrices.empty()) continue;
    ChooseOwners(unit);
    units_.push_back(std::move(unit));
  }
}

void MatrixDivision::ChooseOwners(Unit& unit) const {
  std::vector<Matrix*> order;
  for (Matrix& matrix : unit.matrices) order.push_back(&matrix);
  std::stable_sort(order.begin(), order.end(),
                   [](const Matrix* a, const Matrix* b) { return a->work() > b->work(); });
  std::vector<uint64_t> loads(ranks_);
  const auto first = static_cast<int>(unit.unit % static_cast<uint32_t>(ranks_));
  for (Matrix* const matrix : order) {
    matrix->owner = first;
    for (int step = 1; step < ranks_; ++step) {
      const int rank = (first + step) % ranks_;
      if (loads[rank] < loads[matrix->owner]) matrix->owner = rank;
    }
    if (matrix->sent[0].whole) matrix->owner = matrix->sent[0].rank;
    loads[matrix->owner] += matrix->work();
  }
}

std::vector<MatrixRound> MatrixDivision::RoundsOf(int rank) const {
  std::vector<MatrixRound> rounds;
  for (const Unit& unit : units_) {
    RoundBuilder builder(unit.unit, ranks_, rank);
    for (const Matrix& matrix : unit.matrices) {
      builder.Begin(matrix.rows, matrix.columns, matrix.owner);
      for (const Series& series : matrix.sent) {
        builder.AddSent(series.rank, series.first, series.held);
      }
      for (const Series& series : matrix.held) {
        if (!series.whole) builder.AddReturned(series.rank, series.first, series.held);
      }
    }
    rounds.push_back(builder.Build());
  }
  return rounds;
}

MatrixDivision::Moved MatrixDivision::moved() const {
  Moved moved;
  for (const Unit& unit : units_) {
    for (const Matrix& matrix : unit.matrices) {
      for (const Series& series : matrix.sent) {
        if (series.rank != matrix.owner) moved.to_owners += series.held.count;
      }
      for (const Series& series : matrix.held) {
        if (series.rank != matrix.owner && !series.whole) moved.back += series.held.count;
      }
    }
  }
  return moved;
}

absl::StatusOr<MatrixDivision> DivideMatrices(const v1::TablesSchema& schema,
                                              const MeshPosition& position) {
  const Holders holders(position.mesh);
  std::vector<Tables> tables;
  std::vector<std::vector<ShardLayout::OwnedBlock>> blocks;
  for (const int rank : position.mesh.Group(position.rank, kMatrixAxes)) {
    const MeshPosition other = position.Of(rank);
    MUSTER_ASSIGN_OR_RETURN(tables.emplace_back(), LocalTables(schema, other));
    MUSTER_ASSIGN_OR_RETURN(const DenseLayout layout,
                            LayoutOfTensors(schema, tables.back().tensors));
    blocks.push_back(ShardLayout(layout, holders).OwnedBlocks(layout, other.at(kHolderAxes)));
  }
  std::vector<MatrixHolder> held;
  for (size_t i = 0; i < tables.size(); ++i) held.push_back({tables[i].tensors, blocks[i]});
  return MatrixDivision(held);
}

}  // namespace muster
