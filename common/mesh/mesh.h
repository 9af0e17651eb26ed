#ifndef MUSTER_COMMON_MESH_MESH_H_
#define MUSTER_COMMON_MESH_MESH_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace muster {

namespace v1 {
class ParallelismSpec;
}  // namespace v1

// The axes of a job's ranks. The last one varies fastest: ranks that differ only there are
// neighbours, so the axis that talks most comes last.
enum class Axis {
  // The stages of a pipeline, each with the layers of its own.
  kPipeline,
  // Copies of the parameters. Ranks that differ along an axis "of experts" have other experts, too:
  // the axis before it is divided in two.
  kReplica,
  kReplicaOfExperts,
  // Shards of one copy of the parameters (ZeRO). Replicas and shards together are the data ranks,
  // each of which computes a share of a step's examples.
  kShard,
  kShardOfExperts,
  // Shares of a sequence, whose ranks have each the same parameters, or shards of these, too. At
  // most one of the two kinds is above 1: context is either.
  kContextCopy,
  kContextCopyOfExperts,
  kContextShard,
  kContextShardOfExperts,
  // Shares of each layer.
  kTensor,
};
inline constexpr int kAxisCount = 10;

// A set of axes. Ranks that differ in these alone are a group.
class Axes {
 public:
  constexpr Axes() = default;
  // An axis is the set of itself.
  constexpr Axes(Axis axis) : bits_(1u << static_cast<unsigned>(axis)) {}  // NOLINT

  constexpr bool Has(Axis axis) const { return (bits_ & Axes(axis).bits_) != 0; }
  // Returns all axes but these.
  constexpr Axes Others() const { return Axes(~bits_ & ((1u << kAxisCount) - 1)); }
  constexpr Axes Without(Axes axes) const { return Axes(bits_ & ~axes.bits_); }
  friend constexpr Axes operator|(Axes a, Axes b) { return Axes(a.bits_ | b.bits_); }
  friend constexpr bool operator==(Axes, Axes) = default;

 private:
  explicit constexpr Axes(unsigned bits) : bits_(bits) {}
  unsigned bits_ = 0;
};
inline constexpr Axes operator|(Axis a, Axis b) { return Axes(a) | Axes(b); }

// Ranks that differ along these share out the experts of each layer (expert parallelism). They also
// share out examples or sequences.
inline constexpr Axes kExpertAxes = Axis::kReplicaOfExperts | Axis::kShardOfExperts |
                                    Axis::kContextCopyOfExperts | Axis::kContextShardOfExperts;
// Ranks that differ along these are shards of the data ranks.
inline constexpr Axes kDataShards = Axis::kShard | Axis::kShardOfExperts;
// Ranks that differ along these share out the examples of a step.
inline constexpr Axes kDataAxes = Axis::kReplica | Axis::kReplicaOfExperts | kDataShards;
// Ranks that differ along these share out the sequences of a data rank.
inline constexpr Axes kContextCopies = Axis::kContextCopy | Axis::kContextCopyOfExperts;
inline constexpr Axes kContextShards = Axis::kContextShard | Axis::kContextShardOfExperts;
inline constexpr Axes kContext = kContextCopies | kContextShards;
// Ranks that differ along these each have a part of every gradient, since they compute different
// tokens with the same parameters; except those of experts, of which only ranks that do not differ
// along kExpertAxes have any.
inline constexpr Axes kGradientAxes = kDataAxes | kContext;
// These divide one copy of the parameters other than experts, and those hold copies.
inline constexpr Axes kShardAxes = kDataShards | kContextShards;
inline constexpr Axes kCopyAxes = kGradientAxes.Without(kShardAxes);
// These do the same with experts. Ranks that differ along kExpertCopyAxes alone hold the same.
inline constexpr Axes kExpertShardAxes = kShardAxes.Without(kExpertAxes);
inline constexpr Axes kExpertCopyAxes = kCopyAxes.Without(kExpertAxes);
// Ranks that differ along these hold other slices of parameters, or other experts.
inline constexpr Axes kHolderAxes = kShardAxes | kExpertAxes;
// Ranks that differ along these compute the share of one data rank together.
inline constexpr Axes kModelAxes = kDataAxes.Others();
// Ranks that differ along these, which are some of kModelAxes, talk within every layer.
inline constexpr Axes kLayerAxes = kContext | Axis::kTensor;
// Ranks that differ along these, which are some of kModelAxes, have different parts of the model.
inline constexpr Axes kPartAxes = Axis::kPipeline | Axis::kTensor;
// Ranks that differ along these may have parts of the same matrix.
inline constexpr Axes kMatrixAxes = kShardAxes | Axis::kTensor;
// Only ranks that differ along these may have other shares of some tensor.
inline constexpr Axes kShareAxes = kModelAxes | kExpertAxes;
// Ranks that differ along these divide parameters and optimizer state, if no servers hold them.
inline constexpr Axes kStateAxes = kPartAxes | kHolderAxes;
// Ranks that differ along these use other parameters, of those that servers hold. They divide the
// model among them (ServedTensors).
inline constexpr Axes kServedAxes = kPartAxes | kExpertAxes;

// The ranks of a job as a box with these axes. With 2 shards and 3 tensor ranks, rank 4 is at (1,
// 1) of these: its tensor group is {3, 4, 5}, its shard group {1, 4}. Immutable, so thread-safe.
class Mesh {
 public:
  // Each size is at least 1, and their product is at most 2^20.
  struct Sizes {
    int pipeline = 1;
    int replica = 1;
    int shard = 1;
    int context_copies = 1;
    int context_shards = 1;
    int tensor = 1;
    // The number of neighbours among the ranks along kGradientAxes that share out experts. Of
    // context, shard and replica, it divides the first one or is a multiple of it, and then so on
    // with the quotient and the next one.
    int expert = 1;
  };
  explicit Mesh(const Sizes& sizes);
  // A rank alone.
  Mesh() : Mesh(Sizes()) {}

  // Returns the mesh of `ranks` ranks of a job, all its workers or those of a round, with one
  // shard, and context ranks that each have all parameters. 0 stands for 1, and the data ranks are
  // what is left of `ranks`, whatever the specification says, since a round may have fewer than the
  // job. InvalidArgument, naming the sizes: pipeline, context and tensor do not divide `ranks`, or
  // expert does not divide data times context, or expert and context divide neither one another;
  // or `ranks` is more than 2^20.
  static absl::StatusOr<Mesh> FromSpec(const v1::ParallelismSpec& spec, int ranks);

  int world_size() const { return size(Axes().Others()); }
  // Returns the number of ranks in a group along the axes: 1 along none.
  int size(Axes axes) const;

  // Returns the rank's position in its group along the axes: its coordinates there as one number,
  // of which the last axis varies fastest. A slot beyond the ranks has the position of the rank
  // that it would be with more data ranks, if there is one stage.
  int Position(int rank, Axes axes) const;
  // Returns the rank that is at `position` on the axes and in all others where `rank` is.
  // REQUIRES: 0 <= position < size(axes).
  int Move(int rank, Axes axes, int position) const;

  // Returns the rank's group along the axes, in order of position and so of rank.
  std::vector<int> Group(int rank, Axes axes) const;
  // Returns all groups along the axes, in order of their first rank: disjoint, and together all.
  std::vector<std::vector<int>> Groups(Axes axes) const;

  // Returns whether the rank reports the results of its data rank: the first one of the last stage.
  bool ReportsResults(int rank) const {
    return Position(rank, Axis::kPipeline) + 1 == size(Axis::kPipeline) &&
           Position(rank, kLayerAxes) == 0;
  }

  // Returns the mesh of the ranks of one group along the axes.
  Mesh Only(Axes axes) const;
  // Returns the mesh with these sizes of Axis::kReplica and Axis::kContextCopy.
  Mesh WithCopies(int replicas, int context_copies = 1) const;

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.sizes_ == b.sizes_; }

 private:
  std::array<int, kAxisCount> sizes_;
};

// A rank's position on some axes of its job's mesh.
struct MeshPosition {
  MeshPosition() = default;
  // Returns the position on the mesh of `axes` alone, which all ranks with it have in common.
  MeshPosition(const Mesh& all, int rank, Axes axes)
      : mesh(all.Only(axes)), rank(all.Position(rank, axes)) {}
  MeshPosition(const Mesh& mesh, int rank) : mesh(mesh), rank(rank) {}

  int size(Axes axes) const { return mesh.size(axes); }
  int at(Axes axes) const { return mesh.Position(rank, axes); }
  // Returns another rank's position.
  MeshPosition Of(int other) const { return {mesh, other}; }

  friend bool operator==(const MeshPosition&, const MeshPosition&) = default;

  Mesh mesh;
  int rank = 0;
};

// The axes as jobs name them, outermost first; then "expert", which is some of data and context.
struct NamedAxes {
  absl::string_view name;
  Axes axes;
};
absl::Span<const NamedAxes> JobAxes();

}  // namespace muster

#endif  // MUSTER_COMMON_MESH_MESH_H_
