#include "common/mesh/mesh.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int kMaxRanks = 1 << 20;

}  // namespace

Mesh::Mesh(const Sizes& sizes) {
  const auto at = [this](Axis axis) -> int& { return sizes_[static_cast<size_t>(axis)]; };
  at(Axis::kPipeline) = sizes.pipeline;
  at(Axis::kTensor) = sizes.tensor;
  int left = sizes.expert;
  const auto divide = [&](Axis axis, Axis of_experts, int size) {
    at(of_experts) = std::min(left, size);
    at(axis) = size / at(of_experts);
    left /= at(of_experts);
  };
  divide(Axis::kContextShard, Axis::kContextShardOfExperts, sizes.context_shards);
  divide(Axis::kContextCopy, Axis::kContextCopyOfExperts, sizes.context_copies);
  divide(Axis::kShard, Axis::kShardOfExperts, sizes.shard);
  divide(Axis::kReplica, Axis::kReplicaOfExperts, sizes.replica);
}

absl::StatusOr<Mesh> Mesh::FromSpec(const v1::ParallelismSpec& spec, int ranks) {
  const int64_t pipeline = std::max(1u, spec.pipeline());
  const int64_t context = std::max(1u, spec.context());
  const int64_t tensor = std::max(1u, spec.tensor());
  const int64_t expert = std::max(1u, spec.expert());
  // Division rounds down, so neither this nor the product below can overflow.
  const int64_t data = ranks / pipeline / context / tensor;
  if (data < 1 || pipeline * data * context * tensor != ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallelism: pipeline ", pipeline, " x context ", context, " x tensor ",
                     tensor, " must divide the number of workers, which is ", ranks));
  }
  if (data * context % expert != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parallelism.expert is ", expert,
                                                   "; it must divide data ", data, " x context ",
                                                   context, ", whose ranks hold the experts"));
  }
  if (expert % context != 0 && context % expert != 0) {
    return absl::InvalidArgumentError(absl::StrCat("parallelism.expert is ", expert,
                                                   " and parallelism.context ", context,
                                                   "; one of them must divide the other"));
  }
  if (ranks > kMaxRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("a job has ", ranks, " ranks; at most ", kMaxRanks));
  }
  return Mesh({.pipeline = static_cast<int>(pipeline),
               .replica = static_cast<int>(data),
               .context_copies = static_cast<int>(context),
               .tensor = static_cast<int>(tensor),
               .expert = static_cast<int>(expert)});
}

int Mesh::size(Axes axes) const {
  int size = 1;
  for (int i = 0; i < kAxisCount; ++i) {
    if (axes.Has(static_cast<Axis>(i))) size *= sizes_[i];
  }
  return size;
}

int Mesh::Position(int rank, Axes axes) const {
  int position = 0;
  for (int i = kAxisCount - 1, scale = 1; i >= 0; --i) {
    if (axes.Has(static_cast<Axis>(i))) {
      position += rank % sizes_[i] * scale;
      scale *= sizes_[i];
    }
    rank /= sizes_[i];
  }
  return position;
}

int Mesh::Move(int rank, Axes axes, int position) const {
  int moved = 0;
  for (int i = kAxisCount - 1, stride = 1; i >= 0; --i) {
    int& from = axes.Has(static_cast<Axis>(i)) ? position : rank;
    moved += from % sizes_[i] * stride;
    if (&from == &position) position /= sizes_[i];
    rank /= sizes_[i];
    stride *= sizes_[i];
  }
  return moved;
}

std::vector<int> Mesh::Group(int rank, Axes axes) const {
  std::vector<int> group(size(axes));
  for (size_t i = 0; i < group.size(); ++i) group[i] = Move(rank, axes, static_cast<int>(i));
  return group;
}

std::vector<std::vector<int>> Mesh::Groups(Axes axes) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (Position(rank, axes) == 0) groups.push_back(Group(rank, axes));
  }
  return groups;
}

Mesh Mesh::Only(Axes axes) const {
  Mesh only;
  for (int i = 0; i < kAxisCount; ++i) {
    if (axes.Has(static_cast<Axis>(i))) only.sizes_[i] = sizes_[i];
  }
  return only;
}

Mesh Mesh::WithCopies(int replicas, int context_copies) const {
  Mesh mesh = *this;
  mesh.sizes_[static_cast<size_t>(Axis::kReplica)] = replicas;
  mesh.sizes_[static_cast<size_t>(Axis::kContextCopy)] = context_copies;
  return mesh;
}

absl::Span<const NamedAxes> JobAxes() {
  static constexpr NamedAxes kNamed[] = {{"pipeline", Axis::kPipeline},
                                         {"data", kDataAxes},
                                         {"context", kContext},
                                         {"tensor", Axis::kTensor},
                                         {"expert", kExpertAxes}};
  return kNamed;
}

}  // namespace muster
