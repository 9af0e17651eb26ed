#ifndef MUSTER_WORKER_PARALLEL_MESH_H_
#define MUSTER_WORKER_PARALLEL_MESH_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class ParallelismSpec;
}  // namespace v1

// The ranks of a job as a box with named axes. The last axis varies fastest: ranks that differ only
// there are neighbours, so the axis that talks most comes last. An axis of size 1 is a no-op: every
// group along it is a rank alone. With axes {data: 2, tensor: 3}, rank 4 has coordinates (1, 1);
// its tensor group is {3, 4, 5}, its data group {1, 4}. Immutable, so thread-safe.
class Mesh {
 public:
  struct Axis {
    std::string name;
    int size = 1;
  };

  // InvalidArgument: an axis without a name, of a name used twice, or of a size below 1; or more
  // than 2^20 ranks.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  // Axes pipeline, data, context, expert, tensor, of the specification's sizes; 0 stands for 1 and,
  // for `data`, for whatever makes the product `workers`. InvalidArgument: the product is not
  // `workers` (names all sizes).
  static absl::StatusOr<Mesh> FromSpec(const v1::ParallelismSpec& spec, int workers);

  int world_size() const { return world_size_; }
  absl::Span<const Axis> axes() const { return axes_; }

  // Of the axis of that name; 1 where there is none, as a missing axis is one of size 1.
  int size(absl::string_view axis) const;

  // The rank's position on every axis, in order of axes(). REQUIRES: 0 <= rank < world_size().
  std::vector<int> Coordinates(int rank) const;
  // The rank's position on one axis; 0 where there is none.
  int Coordinate(int rank, absl::string_view axis) const;
  // REQUIRES: one coordinate per axis, each within its axis.
  int Rank(absl::Span<const int> coordinates) const;

  // The ranks that differ from `rank` at most on that axis, in order of their position there;
  // {rank} where there is no such axis.
  std::vector<int> Group(int rank, absl::string_view axis) const;

  // All groups of an axis, in order of their first rank: they are disjoint, and together all ranks.
  std::vector<std::vector<int>> Groups(absl::string_view axis) const;

 private:
  Mesh() = default;

  // Index into axes_, or -1.
  int Find(absl::string_view axis) const;

  std::vector<Axis> axes_;
  // Distance in rank between neighbours on each axis.
  std::vector<int> strides_;
  int world_size_ = 1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PARALLEL_MESH_H_
