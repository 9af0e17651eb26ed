#include "common/partition/matrices.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/partition/local_tensors.h"

namespace muster {
namespace {

constexpr absl::string_view kUp = ".up.weight";

// Returns the extents of the sections that models divide a tensor by, and those of single experts.
std::vector<int64_t> RowsOfSections(const TensorSpec& tensor) {
  const Placement& placement = tensor.placement;
  std::vector<int64_t> rows;
  if (placement.kind == Placement::Kind::kExperts) {
    for (const Placement::Section& section : placement.sections) {
      rows.insert(rows.end(), section.units, section.extent / section.units);
    }
  } else if (placement.kind == Placement::Kind::kShard && placement.dimension == 0) {
    for (const Placement::Section& section : placement.sections) rows.push_back(section.extent);
  } else {
    rows.push_back(tensor.shape[0]);
  }
  return rows;
}

// Returns the rows with each entry in two where it has those of gate and up: as many as the layer
// that follows has columns, twice.
std::vector<int64_t> InHalves(const std::vector<int64_t>& rows, int64_t inputs_of_next) {
  std::vector<int64_t> halves;
  for (const int64_t both : rows) {
    const int count = both == 2 * inputs_of_next ? 2 : 1;
    halves.insert(halves.end(), count, both / count);
  }
  return halves;
}

bool HoldsMatrices(const TensorSpec& tensor) {
  const bool hidden =
      absl::StartsWith(tensor.name, "block") || absl::StartsWith(tensor.name, "hidden");
  return hidden && tensor.tied_to.empty() && !tensor.frozen && tensor.sign_rate == 0 &&
         tensor.shape.size() == 2;
}

}  // namespace

void SetMatrices(absl::Span<TensorSpec> tensors) {
  absl::flat_hash_map<std::string, const TensorSpec*> by_name;
  for (const TensorSpec& tensor : tensors) by_name.emplace(tensor.name, &tensor);
  for (TensorSpec& tensor : tensors) {
    tensor.matrix_rows.clear();
    if (!HoldsMatrices(tensor)) continue;
    std::vector<int64_t> rows = RowsOfSections(tensor);
    absl::string_view layer = tensor.name;
    if (absl::ConsumeSuffix(&layer, kUp)) {
      const auto down = by_name.find(absl::StrCat(layer, ".down.weight"));
      if (down != by_name.end()) rows = InHalves(rows, down->second->shape[1]);
    }
    const bool all_matrices =
        tensor.shape[1] > 1 && !rows.empty() &&
        std::all_of(rows.begin(), rows.end(), [](int64_t n) { return n > 1; });
    if (all_matrices) tensor.matrix_rows = std::move(rows);
  }
}

std::vector<MatrixShare> MatrixShares(const TensorSpec& tensor) {
  if (tensor.matrix_rows.empty() || tensor.elements() == 0) return {};
  const int64_t columns = GlobalShape(tensor)[1];
  // The first row of each matrix, and the end of the last.
  std::vector<int64_t> first_rows = {0};
  for (const int64_t rows : tensor.matrix_rows) first_rows.push_back(first_rows.back() + rows);

  std::vector<MatrixShare> shares;
  uint64_t done = 0;
  const auto elements = static_cast<uint64_t>(tensor.elements());
  ForEachRectangle(tensor, 0, elements, [&](const Rectangle& rectangle, uint64_t, uint64_t) {
    const int64_t end = rectangle.start[0] + rectangle.extent[0];
    for (int64_t row = rectangle.start[0]; row < end;) {
      const auto after = std::upper_bound(first_rows.begin(), first_rows.end(), row);
      const int64_t last = std::min(end, *after);
      const int64_t first_row = *(after - 1);
      const uint64_t here = static_cast<uint64_t>((last - row) * rectangle.extent[1]);
      shares.push_back({.begin = done,
                        .end = done + here,
                        .global_begin = static_cast<uint64_t>(first_row * columns),
                        .rows = *after - first_row,
                        .columns = columns});
      done += here;
      row = last;
    }
  });
  return shares;
}

}  // namespace muster
