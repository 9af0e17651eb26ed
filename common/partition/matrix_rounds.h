#ifndef MUSTER_COMMON_PARTITION_MATRIX_ROUNDS_H_
#define MUSTER_COMMON_PARTITION_MATRIX_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/mesh/mesh.h"
#include "common/partition/shard_layout.h"
#include "common/partition/tensor_spec.h"

namespace muster {

namespace v1 {
class TablesSchema;
}  // namespace v1

// Says how ranks that hold parts of matrices bring them together, so that each is orthogonalised as
// a whole (MatrixRule): those of one stage's tensor ranks and shards, whose slices cut matrices
// anywhere, and whose shares have some rows or columns. Each matrix of which some rank has but a
// part has an owner among these ranks. In each step, unit by unit, all send it what they have of
// the direction, it orthogonalises the matrix, and sends back to each rank what it holds. With P
// elements in such matrices and R ranks, a rank sends about 4 P / R bytes of each of the two; a
// unit's matrices lie in memory at a time.
//
// Elements that several ranks hold come from the lowest one, or from one that has all of the
// matrix, which then is the owner. Ranks that have all of a matrix get nothing back: they
// orthogonalise it themselves. Owners of a unit's matrices are chosen in order of work, the largest
// first, each the rank with the least so far; equals begin with another rank in each unit.
//
// For example, 2 shards divide a unit of a matrix q [4, 4] and a matrix p [4, 8]: 24 elements each.
// Shard 0 has q and a row of p, shard 1 the other three. q needs nobody else; shard 0, at which
// ranks with equal loads begin, owns p: shard 1 sends it three rows, and gets them back.
//
// A pure function of its arguments, the same on every rank.

// The tensors and blocks of one of the ranks.
struct MatrixHolder {
  absl::Span<const TensorSpec> tensors;
  absl::Span<const ShardLayout::OwnedBlock> blocks;
};

// Elements of a block that a rank holds, and of a matrix that it owns. Series on both sides of a
// message are in the same order.
struct HeldSeries {
  // The block's position among the rank's own, and the first element in it.
  uint32_t block = 0;
  uint64_t first = 0;
  uint64_t count = 0;
};
struct OwnedSeries {
  // The first element in MatrixRound::owned_elements.
  uint64_t first = 0;
  uint64_t count = 0;
};

// The elements that move between this rank and another one, which may be itself.
struct MatrixPeer {
  int rank = 0;
  // Elements that this rank sends the other as the owner, and that it gets back.
  std::vector<HeldSeries> sent;
  std::vector<HeldSeries> returned;
  // Elements that the other sends this rank as the owner, and that it gets back.
  std::vector<OwnedSeries> taken;
  std::vector<OwnedSeries> given;
};

// One rank's part in the matrices of a unit.
struct MatrixRound {
  struct Owned {
    int64_t rows = 0;
    int64_t columns = 0;
    // Its first element among those of all owned matrices of the round.
    uint64_t first = 0;
  };
  uint32_t unit = 0;
  std::vector<Owned> owned;
  uint64_t owned_elements = 0;
  // Ranks with which something moves, in order.
  std::vector<MatrixPeer> peers;
};

// The division of work at matrices among ranks. Immutable.
class MatrixDivision {
 public:
  // `holders` are in order of rank.
  explicit MatrixDivision(absl::Span<const MatrixHolder> holders);

  // Returns the rounds of a rank, in order of unit: the same units on all ranks, though a rank may
  // have no part in some.
  std::vector<MatrixRound> RoundsOf(int rank) const;

  // Returns the number of elements that all ranks together send others: as many go to owners as
  // `to_owners` says, and as many come back as `back` says.
  struct Moved {
    uint64_t to_owners = 0;
    uint64_t back = 0;
  };
  Moved moved() const;
  int ranks() const { return ranks_; }

 private:
  // Consecutive elements of a matrix in one of a rank's blocks.
  struct Series {
    uint64_t first = 0;
    int rank = 0;
    bool whole = false;
    HeldSeries held;

    uint64_t end() const { return first + held.count; }
  };
  struct Matrix {
    int64_t rows = 0;
    int64_t columns = 0;
    std::vector<Series> held;
    // These have each element once, in order, and go to this rank.
    std::vector<Series> sent;
    int owner = 0;

    uint64_t work() const;
    bool divided() const;
    void ChooseSent();
  };
  struct Unit {
    uint32_t unit = 0;
    std::vector<Matrix> matrices;
  };

  void ChooseOwners(Unit& unit) const;

  int ranks_ = 0;
  std::vector<Unit> units_;
};

// Returns the division among the ranks along kMatrixAxes of a rank at this position, which has
// kStateAxes at least. Errors are those of the ranks' layouts.
absl::StatusOr<MatrixDivision> DivideMatrices(const v1::TablesSchema& schema,
                                              const MeshPosition& position);

// Returns the number of elements of series.
template <typename Series>
uint64_t ElementsOf(const std::vector<Series>& series) {
  uint64_t sum = 0;
  for (const Series& each : series) sum += each.count;
  return sum;
}

}  // namespace muster

#endif  // MUSTER_COMMON_PARTITION_MATRIX_ROUNDS_H_
