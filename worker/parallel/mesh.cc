#include "worker/parallel/mesh.h"

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

absl::StatusOr<Mesh> Mesh::FromSpec(const v1::ParallelismSpec& spec, int workers) {
  auto or_one = [](uint32_t size) { return static_cast<int>(size == 0 ? 1 : size); };
  std::vector<Axis> axes = {{"pipeline", or_one(spec.pipeline())},
                            {"data", or_one(spec.data())},
                            {"context", or_one(spec.context())},
                            {"expert", or_one(spec.expert())},
                            {"tensor", or_one(spec.tensor())}};
  if (spec.data() == 0) {
    int64_t others = 1;
    for (const Axis& axis : axes) others *= axis.size;
    if (others > 0 && workers % others == 0) axes[1].size = static_cast<int>(workers / others);
  }
  absl::StatusOr<Mesh> mesh = Create(axes);
  if (!mesh.ok()) return mesh.status();
  if (mesh->world_size() != workers) {
    std::string product;
    for (const Axis& axis : axes) {
      absl::StrAppend(&product, product.empty() ? "" : " x ", axis.name, " ", axis.size);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism: the product of ", product, " is ", mesh->world_size(), " but workers is ",
        workers, "; make them equal, or leave parallelism.data out"));
  }
  return mesh;
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
