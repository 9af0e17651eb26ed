#include "common/mesh/mesh.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr int64_t kMaxRanks = 1 << 20;

}  // namespace

absl::StatusOr<Mesh> Mesh::Create(std::vector<Axis> axes) {
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("mesh axis ", i, " has no name"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return absl::InvalidArgumentError(
            absl::StrCat("mesh axes ", j, " and ", i, " are both named ", axes[i].name));
      }
    }
    if (axes[i].size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("mesh axis ", axes[i].name, " has size ", axes[i].size, "; at least 1"));
    }
    ranks *= axes[i].size;
    if (ranks > kMaxRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("the mesh has more than ", kMaxRanks, " ranks; make an axis smaller"));
    }
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  mesh.strides_.resize(mesh.axes_.size());
  for (int i = static_cast<int>(mesh.axes_.size()) - 1; i >= 0; --i) {
    mesh.strides_[i] = mesh.world_size_;
    mesh.world_size_ *= mesh.axes_[i].size;
  }
  return mesh;
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
  return Create({{"pipeline", static_cast<int>(pipeline)},
                 {"data", static_cast<int>(data)},
                 {"context", static_cast<int>(context)},
                 {"tensor", static_cast<int>(tensor)}});
}

int Mesh::Find(absl::string_view axis) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return static_cast<int>(i);
  }
  return -1;
}

int Mesh::size(absl::string_view axis) const {
  int i = Find(axis);
  return i < 0 ? 1 : axes_[i].size;
}

std::vector<int> Mesh::Coordinates(int rank) const {
  std::vector<int> coordinates(axes_.size());
  for (size_t i = 0; i < axes_.size(); ++i) coordinates[i] = rank / strides_[i] % axes_[i].size;
  return coordinates;
}

int Mesh::Coordinate(int rank, absl::string_view axis) const {
  int i = Find(axis);
  return i < 0 ? 0 : rank / strides_[i] % axes_[i].size;
}

int Mesh::Rank(absl::Span<const int> coordinates) const {
  int rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) rank += coordinates[i] * strides_[i];
  return rank;
}

std::vector<int> Mesh::Group(int rank, absl::string_view axis) const {
  int i = Find(axis);
  if (i < 0) return {rank};
  const int first = rank - Coordinate(rank, axis) * strides_[i];
  std::vector<int> group;
  for (int k = 0; k < axes_[i].size; ++k) group.push_back(first + k * strides_[i]);
  return group;
}

std::vector<std::vector<int>> Mesh::Groups(absl::string_view axis) const {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (Coordinate(rank, axis) == 0) groups.push_back(Group(rank, axis));
  }
  return groups;
}

}  // namespace muster
