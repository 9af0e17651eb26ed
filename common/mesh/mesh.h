#ifndef MUSTER_COMMON_MESH_MESH_H_
#define MUSTER_COMMON_MESH_MESH_H_

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

  // A rank alone: a mesh without axes.
  Mesh() = default;

  // InvalidArgument: an axis without a name, of a name used twice, or of a size below 1; or more
  // than 2^20 ranks.
  static absl::StatusOr<Mesh> Create(std::vector<Axis> axes);

  // Returns the mesh of `ranks` ranks of a job, all its workers or those of a round: axes pipeline,
  // data, context and tensor, of the specification's sizes, where 0 stands for 1. `data` is what is
  // left of `ranks`, whatever the specification says, since a round may have fewer data ranks than
  // the job. `expert` is no axis: it divides the ranks of `data` and `context`, and adds none.
  // InvalidArgument, naming the sizes: pipeline, context and tensor do not divide `ranks`, or
  // expert does not divide data times context.
  static absl::StatusOr<Mesh> FromSpec(const v1::ParallelismSpec& spec, int ranks);

  int world_size() const { return world_size_; }
  absl::Span<const Axis> axes() const { return axes_; }

  // Returns the size of the axis of that name; 1 where there is none.
  int size(absl::string_view axis) const;

  // Returns the rank's position on every axis, in order of axes(). REQUIRES: 0 <= rank <
  // world_size().
  std::vector<int> Coordinates(int rank) const;
  // Returns the rank's position on one axis; 0 where there is none. Positions on `data` are data
  // ranks: the ranks at one of them compute the same share of the examples together.
  int Coordinate(int rank, absl::string_view axis) const;
  // REQUIRES: one coordinate per axis, each within its axis.
  int Rank(absl::Span<const int> coordinates) const;

  // Returns the ranks that differ from `rank` at most on that axis, in order of their position
  // there; {rank} where there is no such axis.
  std::vector<int> Group(int rank, absl::string_view axis) const;

  // Returns all groups of an axis, in order of their first rank: disjoint, and together all ranks.
  std::vector<std::vector<int>> Groups(absl::string_view axis) const;

 private:
  // Index into axes_, or -1.
  int Find(absl::string_view axis) const;

  std::vector<Axis> axes_;
  // Distance in rank between neighbours on each axis.
  std::vector<int> strides_;
  int world_size_ = 1;
};

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_MESH_H_
